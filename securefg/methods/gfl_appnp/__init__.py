"""GFL-APPNP: `messages` is what leaves whom, `algorithm` follows the paper."""

from securefg.methods.gfl_appnp.algorithm import METHOD as METHOD
