import { execFile } from 'node:child_process';

/** Figures of one GPU. A figure that the GPU does not report is undefined. */
export interface GpuFigures {
  readonly index: number;
  /** Share of time in which the GPU worked, in percent. */
  readonly usePercent: number | undefined;
  readonly memoryUsedBytes: number | undefined;
  readonly memoryTotalBytes: number | undefined;
  readonly temperatureC: number | undefined;
  /** Uncorrected memory errors since the driver was loaded. */
  readonly eccErrors: number | undefined;
}

const FIELDS = [
  'index',
  'utilization.gpu',
  'memory.used',
  'memory.total',
  'temperature.gpu',
  'ecc.errors.uncorrected.volatile.total',
];
const MIB = 2 ** 20;
const OUTPUT_BYTES_MAX = 1024 * 1024;

/** Failure of `nvidia-smi`. */
export class GpuQueryError extends Error {
  /** `missing` = no such program; `late` = it hangs, as it does when the driver does; `failed` = it says so. */
  readonly kind: 'missing' | 'late' | 'failed';

  constructor(kind: 'missing' | 'late' | 'failed', message: string) {
    super(message);
    this.kind = kind;
  }
}

/** Asks `nvidia-smi` for the figures of every GPU. @throws GpuQueryError; the signal's reason if it aborts */
export function queryGpus(timeoutMs: number, signal: AbortSignal): Promise<readonly GpuFigures[]> {
  const args = [`--query-gpu=${FIELDS.join(',')}`, '--format=csv,noheader,nounits'];
  return new Promise((resolve, reject) => {
    let isLate = false;
    const options = { maxBuffer: OUTPUT_BYTES_MAX, signal };
    const child = execFile('nvidia-smi', args, options, (error, stdout, stderr) => {
      clearTimeout(timer);
      if (error === null) return resolve(readFigures(stdout));
      if (signal.aborted) return reject(signal.reason);
      if (isLate) return; // rejected below
      const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
      const [said = ''] = `${stdout}${stderr}`.trim().split('\n');
      reject(new GpuQueryError(isMissing ? 'missing' : 'failed', said || error.message));
    });
    // A process that hangs in the driver cannot be killed, so its end is not awaited.
    const timer = setTimeout(() => {
      isLate = true;
      child.kill('SIGKILL');
      child.unref();
      reject(new GpuQueryError('late', `nvidia-smi has not answered within ${timeoutMs / 1000} s`));
    }, timeoutMs);
  });
}

/** Reads one line for each GPU, such as `0, 87, 43121, 46068, 71, 0`; `[N/A]` stands for a missing figure. */
export function readFigures(text: string): readonly GpuFigures[] {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [index, use, used, total, temperature, errors] = line.split(',').map(figure);
      return {
        index: index ?? 0,
        usePercent: use,
        memoryUsedBytes: used === undefined ? undefined : used * MIB,
        memoryTotalBytes: total === undefined ? undefined : total * MIB,
        temperatureC: temperature,
        eccErrors: errors,
      };
    });
}

function figure(text: string): number | undefined {
  const value = Number(text.trim());
  return text.trim() === '' || Number.isNaN(value) ? undefined : value;
}
