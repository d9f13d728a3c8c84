import { existsSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { type HubModel, parseHubModel } from '../../config/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { CachedModel } from './cache.ts';
import { fetchHubModel } from './fetch-model.ts';
import { type HubSettings, hubPlace } from './place.ts';
import { reporterOf } from './report.ts';

export interface OpenModelOptions {
  readonly settings: HubSettings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Returns the model on the hub that a user names (`--model-path`, `--model`); undefined if the name is a path, or if a
 * file or folder of that name exists.
 */
export function hubModelOf(name: string): HubModel | undefined {
  return existsSync(name) ? undefined : parseHubModel(name);
}

/**
 * Returns the folder of a model: the folder that `name` is, or that of the cache of the hub, into which the files for
 * serving are downloaded if they are missing.
 * @returns undefined if `name` is neither a folder nor the name of a model on the hub
 * @throws Error with one line that says what to do; the signal's reason
 */
export async function openModel(name: string, options: OpenModelOptions): Promise<string | undefined> {
  const { settings, clock, logger, signal } = options;
  const model = hubModelOf(name);
  if (model === undefined) return folderAt(name);
  const place = hubPlace(settings);
  const reporter = reporterOf(model, place.endpoint, clock, logger);
  try {
    return await fetchHubModel(model, { place, clock, signal, ...reporter });
  } finally {
    reporter.end();
  }
}

/**
 * Finds the folder of a model on this machine, without asking the hub: the folder that `name` is, or the copy in the
 * cache of the hub. Returns undefined if there is none.
 */
export async function findLocalModel(name: string, settings: HubSettings): Promise<string | undefined> {
  const model = hubModelOf(name);
  if (model === undefined) return folderAt(name);
  return (await new CachedModel(hubPlace(settings).cache, model).find())?.folder;
}

function folderAt(path: string): string | undefined {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true ? resolve(path) : undefined;
}
