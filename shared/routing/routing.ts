import { Lifetime } from '../concurrency/index.ts';
import type { EdgeSettings, RouterSettings } from '../config/index.ts';
import { bucketsOf, createRouterMetrics, type RouterMetrics } from '../telemetry/index.ts';
import type { Routing, RoutingDeps } from './feeds.ts';
import type { KvRouting } from './kv-routing.ts';
import type { RouterFiles } from './router-files.ts';

/**
 * Opens the routing that the settings name.
 * @throws KvRouterConfigError for flags of the router that contradict each other
 */
export async function openRouting(settings: EdgeSettings, deps: RoutingDeps): Promise<Routing> {
  const { routerMode: mode } = settings;
  if (mode === 'kv') return openKvRouting(settings, deps);
  const { openPlainRouting } = await import('./plain-routing.ts');
  return openPlainRouting(mode, settings, deps);
}

/**
 * Opens mode `kv` in the role that the settings name. In one role, this process has an index, from which a resident
 * router also answers other processes. In the other role, it asks resident routers; a host that cannot follow events
 * has this role.
 */
async function openKvRouting(settings: EdgeSettings, deps: RoutingDeps): Promise<Routing> {
  const { useRemoteIndexer, serveIndexer = false, routerUrl } = settings;
  const keepsIndex = deps.openEventPlane !== undefined || useRemoteIndexer;
  const { routerRole: role = keepsIndex && routerUrl === undefined ? 'embedded' : 'choose' } = settings;
  return Lifetime.compose(async (lifetime) => {
    if (keepsIndex && (role === 'embedded' || role === 'resident')) {
      const routing = await lifetime.use(openIndexedRouting(settings, deps));
      if (role === 'embedded' && !serveIndexer) return routing;
      const { openRouterServer } = await import('./router-server.ts');
      await routing.serve(settings, await openRouterServer(deps), role === 'resident');
      return routing;
    }
    const { openChooseRouting } = await import('./choose-routing.ts');
    const asksResidents = role !== 'stateless';
    const embedded = keepsIndex && asksResidents ? await lifetime.use(openIndexedRouting(settings, deps)) : undefined;
    return openChooseRouting(settings, deps, { asksResidents, embedded, lifetime });
  });
}

/** Opens routing by an index of this process. Only this function loads its code, because functions have no index. */
async function openIndexedRouting(settings: EdgeSettings, deps: RoutingDeps): Promise<KvRouting> {
  const [files, { KvRouting }, remote] = await Promise.all([
    openRouterFiles(settings),
    import('./kv-routing.ts'),
    settings.useRemoteIndexer ? import('./remote-indexes.ts') : undefined,
  ]);
  const openRemote = remote && ((isRecording: boolean) => new remote.RemoteIndexes(deps, isRecording));
  return Lifetime.compose(async (lifetime) => new KvRouting(settings, deps, { files, openRemote, lifetime }));
}

export function openRouterMetrics(
  settings: EdgeSettings,
  { metrics, random }: Pick<RoutingDeps, 'metrics' | 'random'>,
): RouterMetrics {
  return createRouterMetrics({
    registry: metrics.registry,
    namespace: settings.namespace ?? 'dynamo',
    routerId: random.instanceId(),
    isKvMode: settings.routerMode === 'kv',
    buckets: bucketsOf(settings),
  });
}

/**
 * Reads the files that a router's settings name, and loads the code for it.
 *
 * @throws KvRouterConfigError for a file that cannot be used
 */
export async function openRouterFiles(settings: RouterSettings): Promise<RouterFiles> {
  const { readRouterFiles } = await import('./router-files.ts');
  return readRouterFiles(settings);
}
