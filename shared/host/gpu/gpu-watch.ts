import { reasonOf } from '../../errors/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { KernelLog, type Xid } from './kernel-log.ts';
import { type GpuFigures, GpuQueryError, queryGpus } from './nvidia-smi.ts';

interface GpuWatchOptions {
  readonly logger: Logger;
  /** Path of the kernel log; undefined = it is not read. */
  readonly kernelLog: string | undefined;
  /** Longest wait for `nvidia-smi`, in milliseconds. @default 10,000 */
  readonly queryMsMax?: number;
  onFigures(figures: readonly GpuFigures[]): void;
  onXid(xid: Xid): void;
}

const QUERY_MS_MAX = 10_000;
/** Failures of `nvidia-smi` in a row that count as a fault. */
const FAILURES_MAX = 3;

/** Watches the GPUs of a machine, one look at a time. */
export class GpuWatch {
  readonly #options: GpuWatchOptions;
  readonly #kernelLog: KernelLog | undefined;
  #fault: string | undefined;
  #failures = 0;
  #isMissing = false;
  #hasKernelLog: boolean;

  constructor(options: GpuWatchOptions) {
    this.#options = options;
    this.#kernelLog = options.kernelLog === undefined ? undefined : new KernelLog(options.kernelLog);
    this.#hasKernelLog = this.#kernelLog !== undefined;
  }

  /** The first fault that was found, in words. It stays: GPUs do not heal by themselves. */
  get fault(): string | undefined {
    return this.#fault;
  }

  /** Looks once. Never rejects, apart from the signal's reason. */
  async look(signal: AbortSignal): Promise<void> {
    await this.#readKernelLog();
    await this.#query(signal);
  }

  async close(): Promise<void> {
    await this.#kernelLog?.close();
  }

  async #query(signal: AbortSignal): Promise<void> {
    const { logger, queryMsMax = QUERY_MS_MAX, onFigures } = this.#options;
    if (this.#isMissing) return;
    try {
      const figures = await queryGpus(queryMsMax, signal);
      this.#failures = 0;
      onFigures(figures);
      const broken = figures.find(({ eccErrors = 0 }) => eccErrors > 0);
      if (broken !== undefined) this.#found(`GPU ${broken.index} has ${broken.eccErrors} uncorrected memory errors`);
    } catch (thrown) {
      signal.throwIfAborted();
      if (thrown instanceof GpuQueryError && thrown.kind === 'missing') {
        this.#isMissing = true;
        logger.warn('no nvidia-smi: the GPUs are not watched', { reason: thrown.message });
        return;
      }
      this.#failures++;
      logger.warn('nvidia-smi failed', { failures: this.#failures, reason: reasonOf(thrown) });
      if (this.#failures >= FAILURES_MAX) this.#found(`${FAILURES_MAX} times in a row: ${reasonOf(thrown)}`);
    }
  }

  async #readKernelLog(): Promise<void> {
    if (!this.#hasKernelLog || this.#kernelLog === undefined) return;
    try {
      for (const xid of await this.#kernelLog.read()) {
        this.#options.onXid(xid);
        this.#found(`Xid ${xid.code}: ${xid.line}`);
      }
    } catch (thrown) {
      this.#hasKernelLog = false;
      this.#options.logger.warn('the kernel log cannot be read: Xids are not seen', { reason: reasonOf(thrown) });
    }
  }

  #found(fault: string): void {
    if (this.#fault !== undefined) return;
    this.#fault = fault;
    this.#options.logger.error('GPU fault', { fault });
  }
}
