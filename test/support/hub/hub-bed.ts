import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FetchHubOptions, fetchHubModel } from '../../../shared/artifacts/hub/fetch-model.ts';
import { type HubSettings, hubPlace } from '../../../shared/artifacts/index.ts';
import { type Clock, systemClock } from '../../../shared/clock/index.ts';
import { parseHubModel } from '../../../shared/config/index.ts';
import { type HubServer, startHub } from './hub-server.ts';

/** A clock on which no sleep takes time, with the sleeps that were asked for, and with watches that a test fires. */
export interface HubClock extends Clock {
  readonly slept: number[];
  fireWatches(): void;
}

export function hubClock(): HubClock {
  const slept: number[] = [];
  const watches = new Set<() => void>();
  return {
    ...systemClock,
    slept,
    sleep: async (delayMs, signal) => {
      signal?.throwIfAborted();
      slept.push(delayMs);
      await new Promise((resolve) => setImmediate(resolve));
    },
    every: (_, callback) => {
      watches.add(callback);
      return { cancel: () => watches.delete(callback) };
    },
    fireWatches: () => {
      for (const watch of watches) watch();
    },
  };
}

/** A hub, and a home of Hugging Face's tools. */
export interface HubBed {
  readonly hub: HubServer;
  readonly home: string;
  readonly clock: HubClock;
  settings(changed?: Partial<HubSettings>): HubSettings;
  /** Fetches a model by its name. */
  fetch(name: string, changed?: Partial<HubSettings>, options?: Partial<FetchHubOptions>): Promise<string>;
  close(): Promise<void>;
}

export async function openHubBed(): Promise<HubBed> {
  const hub = await startHub();
  const home = mkdtempSync(join(tmpdir(), 'stator-hub-'));
  const clock = hubClock();
  const settings = (changed: Partial<HubSettings> = {}): HubSettings => ({
    hfEndpoint: hub.url,
    hfToken: undefined,
    hfTokenPath: undefined,
    hfHome: home,
    hfHubCache: undefined,
    hfHubOffline: false,
    ...changed,
  });
  return {
    hub,
    home,
    clock,
    settings,
    fetch: async (name, changed, options) => {
      const model = parseHubModel(name);
      if (model === undefined) throw new Error(`${name} names no model`);
      return fetchHubModel(model, { place: hubPlace(settings(changed), {}), clock, ...options });
    },
    async close() {
      await hub.stop();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

/** Returns every file below `folder` with its content, and every link with its target. */
export function treeOf(folder: string): Readonly<Record<string, string>> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return Object.fromEntries(
    entries.flatMap((entry) => {
      const path = join(entry.parentPath, entry.name);
      const name = path.slice(folder.length + 1);
      if (entry.isSymbolicLink()) return [[name, `-> ${readlinkSync(path)}`]];
      return entry.isFile() ? [[name, readFileSync(path, 'utf8')]] : [];
    }),
  );
}
