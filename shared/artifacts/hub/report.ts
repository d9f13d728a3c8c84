import type { Clock } from '../../clock/index.ts';
import { type HubModel, nameOfHubModel } from '../../config/index.ts';
import { type Logger, Progress, type ProgressOutput } from '../../telemetry/index.ts';
import type { FetchHubOptions, HubProgress } from './fetch-model.ts';

/** Interval between two log lines about one download, in milliseconds. A terminal shows every change. */
const LOG_EVERY_MS = 5000;
const MEGABYTE = 1e6;

/** Reports one download. */
interface Reporter extends Required<Pick<FetchHubOptions, 'onProgress' | 'onDoubt'>> {
  /** Says that the download is over. */
  end(): void;
}

/** Reports the download of a model: in one changing line on a terminal, and in lines of the log. */
export function reporterOf(
  model: HubModel,
  endpoint: string,
  clock: Clock,
  logger: Logger,
  output: ProgressOutput = process.stderr,
): Reporter {
  const name = nameOfHubModel(model);
  const line = output.isTTY === true ? new Progress(output, clock) : undefined;
  let last: HubProgress | undefined;
  let toldMs = clock.nowMs();
  return {
    onProgress: (progress) => {
      const { files, bytes, bytesOfAll } = progress;
      const nowMs = clock.nowMs();
      if (last === undefined) {
        logger.info('downloading the files of a model', { model: name, from: endpoint, files, bytes: bytesOfAll });
      } else if (line === undefined && nowMs - toldMs >= LOG_EVERY_MS) {
        toldMs = nowMs;
        logger.info('still downloading', { model: name, bytes, of: bytesOfAll });
      }
      line?.tell(`downloading ${name}: ${megabytes(bytes)} of ${megabytes(bytesOfAll)} MB`);
      last = progress;
    },
    onDoubt: (reason) =>
      logger.warn('the files of a model in the cache may not be all: the hub could not be asked', {
        model: name,
        reason,
      }),
    end: () => {
      line?.end();
      if (last !== undefined && last.bytes === last.bytesOfAll) logger.info('downloaded', { model: name });
    },
  };
}

function megabytes(bytes: number): string {
  return (bytes / MEGABYTE).toFixed(1);
}
