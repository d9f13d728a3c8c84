import { TrieRouter } from 'hono/router/trie-router';
import { ConfigError, nameOf, type SettingName } from '../../config/index.ts';
import { pathBelow, type Route } from './route.ts';
import type { HttpSettings } from './settings.ts';

type Paths = HttpSettings['paths'];

/** Settings that move a path. */
export const PATH_SETTINGS: Readonly<Record<keyof Paths, SettingName>> = {
  chat: 'httpSvcChatPath',
  completions: 'httpSvcCmpPath',
  embeddings: 'httpSvcEmbPath',
  responses: 'httpSvcResponsesPath',
  models: 'httpSvcModelsPath',
  messages: 'httpSvcAnthropicPath',
  health: 'httpSvcHealthPath',
  live: 'httpSvcLivePath',
  metrics: 'httpSvcMetricsPath',
};

/**
 * Checks that every route has a path of its own. Of two routes at one path one would be unreachable, without an error.
 * @throws ConfigError that names the settings, and the fixed route if it is one, for each path that two routes claim
 */
export function requireOwnPaths(routes: readonly Route[], paths: Paths): void {
  const keys = Object.keys(PATH_SETTINGS) as (keyof Paths)[];
  const problems = new Set<string>();
  for (const path of new Set(keys.map((key) => paths[key]))) {
    const here = routes.filter(({ pattern }) => pattern === path);
    if (here.length === 0) continue; // its route is not served
    const named = keys.filter((key) => paths[key] === path).map((key) => nameOf(PATH_SETTINGS[key]));
    const others = here.length > named.length ? ['a fixed route'] : [];
    if (here.length > 1)
      problems.add(`${[...named, ...others].join(' and ')} are both at ${path}: choose another path`);
    const below = routeBelow(routes, path);
    if (here.length === 1 && below !== undefined) {
      problems.add(`${named.join(' and ')} ${path} lies where ${below} is: choose another path`);
    }
  }
  if (problems.size > 0) throw new ConfigError([...problems]);
}

/** Returns the route whose variable part matches the path, or is matched by it. */
function routeBelow(routes: readonly Route[], path: string): string | undefined {
  const router = new TrieRouter<Route>();
  for (const route of routes) if (/[:*]/.test(route.pattern)) router.add('ALL', route.pattern, route);
  const [found] = router.match('ALL', path);
  const other = found.map(([route]) => route).find(({ pattern }) => !pattern.startsWith(`${pathBelow(path)}/:`));
  return other && (other.operations[0]?.path ?? other.pattern);
}
