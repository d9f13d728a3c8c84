import { EMBEDDED_NAMESPACE } from '../../telemetry/index.ts';
import type { GpuFigures } from './nvidia-smi.ts';

/** Metrics of a machine with their units at CloudWatch. */
const UNITS = {
  GpuUse: 'Percent',
  GpuMemoryUse: 'Percent',
  GpuTemperature: 'None',
  GpuEccErrors: 'Count',
  GpuXids: 'Count',
} as const;

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
  const present = Object.entries(values).filter(([, list]) => list.length > 0);
  const Metrics = present.map(([Name]) => ({ Name, Unit: UNITS[Name as keyof typeof UNITS] })); // keys of values
  const line = {
    _aws: {
      Timestamp: Math.round(timeMs),
      CloudWatchMetrics: [{ Namespace: EMBEDDED_NAMESPACE, Dimensions: [['Service']], Metrics }],
    },
    Service: service,
    InstanceId: instanceId,
    ...Object.fromEntries(present.map(([name, list]) => [name, list.length === 1 ? list[0] : list])),
  };
  return `${JSON.stringify(line)}\n`;
}

function memoryPercent({ memoryUsedBytes: used, memoryTotalBytes: total }: GpuFigures): number | undefined {
  return used === undefined || !total ? undefined : Math.round((1000 * used) / total) / 10;
}

function known(values: readonly (number | undefined)[]): readonly number[] {
  return values.filter((value) => value !== undefined);
}
