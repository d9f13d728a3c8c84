import type { Clock } from '../clock/index.ts';
import { START_PHASES, type StartPhase } from '../protocol/index.ts';
import { exposeUptime, MetricRegistry } from '../telemetry/index.ts';
import type { GpuFigures } from './gpu/nvidia-smi.ts';

/** Metrics of a host. */
export type HostMetrics = ReturnType<typeof createHostMetrics>;

export function createHostMetrics(clock: Clock, registry = new MetricRegistry()) {
  const host = registry.under('stator_host_');
  exposeUptime(registry, clock, host.gauge('uptime_seconds', 'Seconds since the agent started.').with());
  const phases = host.gauge('start_phase_seconds', 'Time that each phase of the last start took.', 'phase');
  for (const phase of START_PHASES) phases.with(phase);
  const workers = host.gauge('workers', 'Workers of this machine by their state.', 'state');
  const failures = host.counter('worker_failures_total', 'Workers that ended without having been told to.').with();
  const calls = host.counter('lifecycle_calls_total', 'Calls to Auto Scaling by their outcome.', 'call', 'outcome');
  const weights = host.counter('weights_bytes_total', 'Bytes of weights that were fetched.').with();
  const use = host.gauge('gpu_use_ratio', 'Share of time in which a GPU worked.', 'gpu');
  const used = host.gauge('gpu_memory_used_bytes', 'Memory of a GPU in use.', 'gpu');
  const total = host.gauge('gpu_memory_total_bytes', 'Memory of a GPU.', 'gpu');
  const temperature = host.gauge('gpu_temperature_celsius', 'Temperature of a GPU.', 'gpu');
  const ecc = host.gauge('gpu_ecc_errors', 'Uncorrected memory errors of a GPU since its driver was loaded.', 'gpu');
  const xids = host.counter('gpu_xids_total', 'Fatal errors that the driver reported, by their code.', 'xid');
  return {
    registry,
    phase: (phase: StartPhase, seconds: number) => phases.with(phase).set(seconds),
    workers: (state: 'absent' | 'starting' | 'ready', count: number) => workers.with(state).set(count),
    workerFailed: () => failures.add(),
    lifecycleCall: (call: string, outcome: 'done' | 'unknown' | 'failed') => calls.with(call, outcome).add(),
    weightsFetched: (bytes: number) => weights.add(bytes),
    xid: (code: number) => xids.with(String(code)).add(),
    gpus: (figures: readonly GpuFigures[]) => {
      for (const { index, usePercent, memoryUsedBytes, memoryTotalBytes, temperatureC, eccErrors } of figures) {
        const gpu = String(index);
        if (usePercent !== undefined) use.with(gpu).set(usePercent / 100);
        if (memoryUsedBytes !== undefined) used.with(gpu).set(memoryUsedBytes);
        if (memoryTotalBytes !== undefined) total.with(gpu).set(memoryTotalBytes);
        if (temperatureC !== undefined) temperature.with(gpu).set(temperatureC);
        if (eccErrors !== undefined) ecc.with(gpu).set(eccErrors);
      }
    },
  };
}
