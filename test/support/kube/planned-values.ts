/** Arguments of Helm for a planner with pools of two kinds, of which one has two pools. */
export const PLANNED: readonly string[] = [
  ...['planner.enabled=true', 'planner.model=served', 'planner.holdSecs=99', 'router.enabled=true'],
  ...['planner.config.rate_prefill_requests_per_second=2', 'planner.config.rate_decode_requests_per_second=3'],
  ...pool(0, 'first', 'prefill', ['min=1', 'max=2']),
  ...pool(1, 'zeta', 'decode', ['min=1', 'max=3']),
  ...pool(2, 'alpha', 'decode', ['min=1', 'max=4', 'market=spot']),
  ...['workers.alpha.drainSecs=90', 'workers.zeta.gpus=4', 'workers.alpha.gpus=4'],
  ...['workers.free.engine=mocker', 'workers.free.model=other', 'workers.free.replicas=7'],
].flatMap((value) => ['--set', value]);

/** Returns the values of a pool that the planner scales. */
function pool(at: number, name: string, mode: string, planned: readonly string[]): readonly string[] {
  const entry = [`pool=${name}`, ...planned].map((value) => `planner.pools[${at}].${value}`);
  const transfer = '--kv-transfer-config={"kv_connector":"NixlConnector"\\,"kv_role":"kv_both"}';
  const worker = ['engine=vllm', 'model=m', `mode=${mode}`, `arguments[0]=${transfer}`];
  return [...worker.map((value) => `workers.${name}.${value}`), ...entry];
}
