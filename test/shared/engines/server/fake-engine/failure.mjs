const FRAMES = [
  '  File "/site-packages/vllm/v1/engine/core.py", line 1482, in run_engine_core',
  '    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)',
  '                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^',
];

/** Ends as vLLM does when a process inside it fails: each process tells of it in its turn, the outermost last. */
export function endEngineCore(exception) {
  const log = (line) =>
    console.error(`(EngineCore_DP0 pid=${process.pid}) ERROR 11-22 10:00:00 [core.py:1510] ${line}`);
  for (const line of ['EngineCore failed to start.', 'Traceback (most recent call last):', ...FRAMES, exception])
    log(line);
  for (const line of ['Process EngineCore_DP0:', 'Traceback (most recent call last):', ...FRAMES, exception])
    console.error(line);
  const outer = 'RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}';
  for (const line of ['Traceback (most recent call last):', ...FRAMES, outer]) {
    console.error(`(APIServer pid=${process.pid}) ${line}`);
  }
  process.exit(1);
}
