import { type Gate, type KeyStore, RequestNames } from '../../access/index.ts';
import type { Clock } from '../../clock/index.ts';
import { type Lifetime, OpenOnce } from '../../concurrency/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { isLoopback } from '../../planes/index.ts';
import { createAccessMetrics, type Logger, type MetricRegistry } from '../../telemetry/index.ts';

/**
 * Opens the gate that requires API keys, and loads its code only then. Returns undefined if the settings require no
 * keys.
 */
export async function openGate(
  settings: EdgeSettings,
  clock: Clock,
  registry: MetricRegistry,
  log: Logger,
): Promise<Gate | undefined> {
  if (!asksForKeys(settings)) {
    if (hasStore(settings))
      log.warn('every client that reaches this process is served: STATOR_AUTH=off leaves its API keys unchecked');
    return undefined;
  }
  const { KeyGate, openKeyStore } = await import('../../access/index.ts');
  const store = await openKeyStore(settings);
  if (store === undefined) throw new Error('STATOR_AUTH=on needs STATOR_KEYS_TABLE or --keys-file');
  const metrics = createAccessMetrics(registry);
  let isAway = false;
  return new KeyGate({
    store,
    clock,
    freshMs: settings.keyCacheSecs * 1000,
    onRefused: metrics.refused,
    onAdmitted: metrics.admitted,
    onSpent: metrics.spent,
    onRead: (outcome, failure) => {
      metrics.read(outcome);
      if (isAway === (outcome === 'failed')) return;
      isAway = !isAway;
      if (isAway) log.warn('API keys cannot be looked up: keys in use stay valid', { reason: reasonOf(failure) });
      else log.info('API keys can be looked up again');
    },
  });
}

/**
 * Returns a function that opens the store of API keys at its first call, for operators who manage keys. It rejects if
 * the store cannot be opened, and the next call tries again. Undefined if the settings name no store.
 */
export function lazyKeyStore(settings: EdgeSettings, lifetime: Lifetime): (() => Promise<KeyStore>) | undefined {
  if (!hasStore(settings)) return undefined;
  const opened = new OpenOnce(async (): Promise<KeyStore> => {
    const { openKeyStore } = await import('../../access/index.ts');
    const store = await openKeyStore(settings);
    if (store === undefined) throw new Error('STATOR_KEYS_TABLE or --keys-file must be set');
    return store;
  });
  lifetime.use(opened);
  return () => opened.get();
}

/** Returns whether clients on other machines are served without proof, although the operator did not choose this. */
export function isOpenToAll(settings: EdgeSettings): boolean {
  const { auth, httpHost } = settings;
  return auth === 'auto' && !asksForKeys(settings) && !(httpHost !== undefined && isLoopback(httpHost));
}

/** Returns the names of requests, which every frontend with the same secret understands; undefined without a secret. */
export function openNames(settings: EdgeSettings): RequestNames | undefined {
  const { idSecret, planeToken } = settings;
  if (idSecret !== undefined) return new RequestNames(idSecret, settings.idSecretPrevious ?? undefined);
  return planeToken === undefined ? undefined : new RequestNames(planeToken, settings.planeTokenPrevious ?? undefined);
}

/**
 * Returns whether clients need a key. They need one on loopback, too, because a proxy or a tunnel there admits others.
 */
export function asksForKeys(settings: EdgeSettings): boolean {
  return settings.auth === 'on' || (settings.auth === 'auto' && hasStore(settings));
}

function hasStore({ keysTable, keysFile }: EdgeSettings): boolean {
  return (keysTable ?? keysFile) !== undefined;
}
