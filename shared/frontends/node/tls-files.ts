import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { Clock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { Logger } from '../../telemetry/index.ts';

/** Paths of the PEM files of a listener. */
export interface TlsPaths {
  /** `--tls-cert-path` */
  readonly cert: string;
  /** `--tls-key-path` */
  readonly key: string;
  /** `--tls-client-ca-cert-path`: clients must show a certificate of this authority. @default clients need none */
  readonly clientCa?: string | undefined;
}

/** PEM texts that belong together. */
export interface TlsMaterial {
  readonly cert: string;
  readonly key: string;
  /** Authority of client certificates; if set, clients must show a certificate. */
  readonly ca?: string;
}

export interface TlsWatchOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called with every new certificate that is valid. */
  readonly onChange: (material: TlsMaterial) => void;
  /** Interval between two readings of the files, in milliseconds. @default 10_000 */
  readonly intervalMs?: number;
}

/**
 * Reads and checks the files of a listener.
 * @throws Error with one line that names the flags to look at
 */
export async function readTlsFiles(paths: TlsPaths): Promise<TlsMaterial> {
  const read = async (path: string, flag: string): Promise<string> => {
    try {
      return await readFile(path, 'utf8');
    } catch (cause) {
      throw new Error(`${flag}: cannot read ${path}: ${reasonOf(cause)}`, { cause });
    }
  };
  const cert = await read(paths.cert, '--tls-cert-path');
  const key = await read(paths.key, '--tls-key-path');
  const ca = paths.clientCa === undefined ? undefined : await read(paths.clientCa, '--tls-client-ca-cert-path');
  const material: TlsMaterial = { cert, key, ...(ca === undefined ? {} : { ca }) };
  try {
    createSecureContext(material);
  } catch (cause) {
    const flags = `--tls-cert-path ${paths.cert} and --tls-key-path ${paths.key}`;
    throw new Error(`${flags} are not a certificate and a key that belong together: ${reasonOf(cause)}`, { cause });
  }
  return material;
}

/**
 * Reads the files periodically and passes on new valid material. It compares contents, because volumes of secrets
 * replace whole folders behind links, which notifications of the file system do not show. A half-written pair is logged
 * once and read again later.
 * @param current material that the listener has now
 */
export function watchTlsFiles(paths: TlsPaths, current: TlsMaterial, options: TlsWatchOptions): TlsFileReader {
  const { clock, logger, onChange, intervalMs = 10_000 } = options;
  let known = current;
  let lastFailure: string | undefined;
  let isReading = false;
  const look = async (): Promise<void> => {
    if (isReading) return; // a slow volume gets one reading at a time
    isReading = true;
    try {
      const found = await readTlsFiles(paths);
      lastFailure = undefined;
      if (found.cert === known.cert && found.key === known.key && found.ca === known.ca) return;
      known = found;
      onChange(found);
      logger.info('certificate reloaded', { path: paths.cert });
    } catch (error) {
      const reason = reasonOf(error);
      if (reason !== lastFailure) logger.warn('certificate not reloaded; the old one stays', { reason });
      lastFailure = reason;
    } finally {
      isReading = false;
    }
  };
  const timer = clock.every(intervalMs, () => void look());
  return { look, stop: () => timer.cancel() };
}

/** A watch on the files of one listener. */
export interface TlsFileReader {
  /** Reads the files now; never rejects. For tests. */
  look(): Promise<void>;
  stop(): void;
}
