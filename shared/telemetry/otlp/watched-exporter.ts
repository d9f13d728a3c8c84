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

/** `exporter`, which tells when batches are lost and when they go through again: one line an outage. */
export function watchExporter<Item>(
  exporter: Exporter<Item>,
  signal: string,
  logger: Logger,
): Required<Exporter<Item>> {
  let lost = 0;
  return {
    export(items, done) {
      exporter.export(items, (result) => {
        if (result.code !== 0) {
          if (lost === 0) logger.warn('OTLP export fails', { signal, reason: result.error?.message });
          lost += items.length;
        } else if (lost > 0) {
          logger.info('OTLP export works again', { signal, lost });
          lost = 0;
        }
        done(result.code === 0 ? result : { code: result.code }); // told here; the SDK would tell each batch
      });
    },
    forceFlush: async () => exporter.forceFlush?.(),
    shutdown: () => exporter.shutdown(),
  };
}
