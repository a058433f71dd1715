"""A model larger than the device's memory, made on the device: passes of matrix products, and sums of all its words before and behind them."""
import argparse, json, time
import torch
p = argparse.ArgumentParser(); p.add_argument("--gib", type=int, default=176); p.add_argument("--passes", type=int, default=3)
o = p.parse_args()
g = torch.Generator("cuda").manual_seed(1); begin = time.perf_counter(); layers, sums = [], []
for _ in range(o.gib):
    w = torch.empty(16384, 32768, dtype=torch.bfloat16, device="cuda").normal_(0, 1 / 128, generator=g)
    layers.append(w); sums.append(w.view(torch.int32).sum(dtype=torch.int64))
sums = torch.stack(sums).cpu(); made = time.perf_counter() - begin
print(json.dumps({"made_s": round(made, 1), "gib": o.gib}), flush=True)
def one_pass():
    x = torch.ones(8, 16384, dtype=torch.bfloat16, device="cuda")
    for w in layers:
        y = x @ w
        x = torch.nn.functional.rms_norm(y[:, :16384] + y[:, 16384:], (16384,))
    return x
times, results = [], []
for _ in range(o.passes):
    torch.cuda.synchronize(); b = time.perf_counter(); r = one_pass().float().sum().item(); times.append(round(time.perf_counter() - b, 3)); results.append(r)
again = torch.stack([w.view(torch.int32).sum(dtype=torch.int64) for w in layers]).cpu()
print(json.dumps({"gib": o.gib, "device_gib": round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1), "made_s": round(made, 1), "pass_s": times, "results_equal": len(set(results)) == 1, "sums_equal": bool((again == sums).all()), "device": torch.cuda.get_device_name()}))
