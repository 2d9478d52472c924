"""FedGL: `messages` is what leaves whom, `algorithm` follows the paper."""

from securefg.methods.fedgl.algorithm import METHOD as METHOD
