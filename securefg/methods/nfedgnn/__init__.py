"""nFedGNN: `messages` is what leaves whom, `algorithm` follows the paper."""

from securefg.methods.nfedgnn.algorithm import METHOD as METHOD
