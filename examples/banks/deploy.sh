#!/usr/bin/env bash
# Four banks as four sites on this machine, each with its own folder: bash deploy.sh, in an empty folder
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
port="${PORT:-8012}"
banks="north south east west"
cp "$here/banks.yaml" .
python "$here/generate.py" banks
securefg data prepare banks prepared                     # here: where the agreed schema comes from

# Every bank prepares its own tables by the schema; transfers to others' customers end at its door.
nodes=0
mkdir -p own
for bank in $banks; do
  { cat banks/tables.yaml; echo "unknown_ends: drop"; } > "banks/$bank/tables.yaml"
  securefg data prepare "banks/$bank" "own/$bank" --schema prepared/schema.json
  echo "$nodes" > "own/$bank.first"
  nodes=$((nodes + $(wc -l < "own/$bank/ids.csv") - 1))
done
features=$(python -c 'import numpy; print(numpy.load("prepared/features.npz")["x"].shape[1])')

# One party provisions without anybody's data.
securefg deploy provision banks.yaml --out kits --site north --site south --site east --site west \
  --server localhost --port "$port" --without-data --nodes "$nodes" --features "$features" --classes 2 \
  --set training.monitor=val_accuracy --set training.keep=last --set method.weighting=clients \
  --set 'privacy={secure_aggregation: {malicious: true, min_clients: 4}}'

# Every bank makes its shard, which stays in its kit, and sets its floor.
for bank in $banks; do
  securefg deploy shard "kits/$bank" "own/$bank" --first-node "$(cat "own/$bank.first")" \
    --split kind=shares --split train_share=0.5 --split val_share=0.2
  securefg deploy review "kits/$bank" || echo "$bank: the strict floor refuses it, as it should"
  cp "$here/floor.yaml" "kits/$bank/securefg/site_policy.yaml"
  securefg deploy review "kits/$bank"
done

started=()
trap 'kill "${started[@]}" 2>/dev/null; wait' EXIT
for party in localhost $banks; do
  securefg deploy start "kits/$party" > "$party.log" 2>&1 &
  started+=($!)
done
securefg deploy submit kits
securefg deploy fetch kits --out fetched --wait 600
for bank in $banks; do
  securefg deploy ledger "kits/$bank"
  securefg deploy audit "kits/$bank" --only promises --out "$bank.json"
done
securefg deploy assemble kits north.json south.json east.json west.json --out together.html
