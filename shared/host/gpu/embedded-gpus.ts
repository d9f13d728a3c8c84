import { renderEmbedded } from '../../telemetry/index.ts';
import type { GpuFigures } from './nvidia-smi.ts';

interface Told {
  /** Value of the dimension `Service`, which the machines of a group share. */
  readonly service: string;
  readonly instanceId: string;
  /** Unix ms. */
  readonly timeMs: number;
  /** Fatal Xids since the last line. */
  readonly xids: number;
}

/**
 * Returns one line in CloudWatch's embedded format with the values of all GPUs. The instance is a field and not a
 * dimension, because CloudWatch bills each set of dimensions as a metric of its own.
 */
export function renderGpus(figures: readonly GpuFigures[], { service, instanceId, timeMs, xids }: Told): string {
  const values = {
    GpuUse: known(figures.map(({ usePercent }) => usePercent)),
    GpuMemoryUse: known(figures.map(memoryPercent)),
    GpuTemperature: known(figures.map(({ temperatureC }) => temperatureC)),
    GpuEccErrors: known(figures.map(({ eccErrors }) => eccErrors)),
    GpuXids: [xids],
  };
  const present = Object.fromEntries(Object.entries(values).filter(([, list]) => list.length > 0));
  const source = { dimension: 'Service', name: service } as const;
  return renderEmbedded(present, { source, timeMs, beside: { InstanceId: instanceId } });
}

function memoryPercent({ memoryUsedBytes: used, memoryTotalBytes: total }: GpuFigures): number | undefined {
  return used === undefined || !total ? undefined : Math.round((1000 * used) / total) / 10;
}

function known(values: readonly (number | undefined)[]): readonly number[] {
  return values.filter((value) => value !== undefined);
}
