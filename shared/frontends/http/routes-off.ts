import { TrieRouter } from 'hono/router/trie-router';
import { nameOf, type SettingName, TABLE } from '../../config/index.ts';
import { pathBelow, type Route } from './route.ts';
import { PATH_SETTINGS } from './route-paths.ts';
import { routesOf } from './route-table.ts';
import type { HttpSettings } from './settings.ts';

/* Routes that another setting would have served: a client that asks for one learns the name of the setting. */

/**
 * Returns a function that says, in a sentence, why a path has no route with these settings although it has one with
 * others. It returns undefined for paths that never have a route. The app calls this at the first path that it does not
 * find.
 */
export function routesOff(settings: HttpSettings): (path: string) => string | undefined {
  const reasons = new TrieRouter<string>();
  const clients = { ...settings, servesClients: true };
  const own = routesOf(settings);
  const add = (routes: readonly Route[], why: string): void => {
    const others = routes.filter(({ pattern }) => !own.some((each) => each.pattern === pattern));
    for (const { pattern } of others) reasons.add('ALL', pattern, why);
  };
  if (settings.servesClients === false) {
    const roles = `${nameOf('kserveGrpcServer')} is given, or ${nameOf('roles')} without http`;
    add(routesOf(clients), `This process serves no OpenAI API: ${roles}.`);
  }
  const messages = { ...clients, anthropic: { ...settings.anthropic, isEnabled: true } };
  const [flag, variable] = [nameOf('enableAnthropicApi'), TABLE.get('enableAnthropicApi')?.env[0]];
  add(routesOf(messages), `The Messages API is off: ${flag} (${variable}=true) turns it on.`);
  const admin = { ...settings, hasAdminRoutes: true };
  add(routesOf(admin), `Routes of operators are off: ${nameOf('disableFrontendAdminApi')} is set.`);
  const off = settings.hasAdminRoutes ? nameOf('consoleRequests') : nameOf('disableFrontendAdminApi');
  const why = settings.hasAdminRoutes ? `${off} is 0, or this process is a function` : `${off} is set`;
  add(routesOf({ ...settings, hasConsole: true }), `There is no console: ${why}.`);
  for (const [key, setting] of Object.entries(PATH_SETTINGS) as [keyof HttpSettings['paths'], SettingName][]) {
    const usual = TABLE.get(setting)?.default;
    const path = settings.paths[key];
    if (typeof usual !== 'string' || usual === path || own.some(({ pattern }) => pattern === usual)) continue;
    const why = `It is at ${path}, as ${nameOf(setting)} says.`;
    for (const pattern of [usual, `${pathBelow(usual)}/*`]) reasons.add('ALL', pattern, why);
  }
  return (path) => reasons.match('ALL', path)[0][0]?.[0];
}
