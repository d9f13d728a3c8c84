import type { Logger } from '../log/logger.ts';

/** What batches are handed to; what it says of them. */
interface Exporter<Item> {
  export(items: Item[], done: (result: ExportResult) => void): void;
  forceFlush?(): Promise<void>;
  shutdown(): Promise<void>;
}

interface ExportResult {
  /** 0 = sent. */
  readonly code: number;
  readonly error?: Error;
}

export interface WatchOptions {
  /** As log lines name what is exported. */
  readonly signal: string;
  readonly logger: Logger;
  /** Items that wait for their batch; more are dropped. */
  readonly queueMax: number;
  onDropped(count: number): void;
}

export interface WatchedExporter<Item> {
  readonly exporter: Required<Exporter<Item>>;
  /** Whether there is room for one item more, which is handed to its batch then. One that finds none is counted. */
  takes(): boolean;
}

/** `exporter`, which tells when batches are lost and when they go through again: one line an outage. */
export function watchExporter<Item>(exporter: Exporter<Item>, options: WatchOptions): WatchedExporter<Item> {
  const { signal, logger, queueMax, onDropped } = options;
  let waiting = 0; // the SDK has the same bound, and drops without a number that could be read
  let lost = 0;
  const finished = (items: number, { code, error }: ExportResult): void => {
    if (code !== 0) {
      if (lost === 0) logger.warn('OTLP export fails', { signal, reason: error?.message });
      lost += items;
      onDropped(items);
    } else if (lost > 0) {
      logger.info('OTLP export works again', { signal, lost });
      lost = 0;
    }
  };
  return {
    takes() {
      const hasRoom = waiting < queueMax;
      if (hasRoom) waiting++;
      else onDropped(1);
      return hasRoom;
    },
    exporter: {
      export(items, done) {
        waiting -= items.length;
        exporter.export(items, (result) => {
          finished(items.length, result);
          done(result.code === 0 ? result : { code: result.code }); // told here; the SDK would tell each batch
        });
      },
      forceFlush: async () => exporter.forceFlush?.(),
      shutdown: () => exporter.shutdown(),
    },
  };
}
