#!/usr/bin/env bash
# Everything, from tables to verdicts, in the working folder: bash all.sh
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cp "$here/banks.yaml" "$here/curve.yaml" .
python "$here/generate.py" banks
securefg data check banks
securefg data prepare banks prepared
securefg run banks.yaml                                            # each bank its own edges
securefg run banks.yaml --set name=together --set 'partition={name: shares, shares: [1.0]}'   # one hand
securefg run banks.yaml --set name=private --set privacy.mechanism=local_gaussian \
  --set privacy.target_epsilon=64 --set privacy.unit=node --set privacy.clip_l2=0.5
for run in runs/banks-s0-* runs/private-s0-*; do
  securefg audit "$run" --only membership_loss --only membership_rmia --only promises --trials 20000
  securefg report "$run" --for dpo
  securefg verify "$run"
done
securefg curve curve.yaml
