import { ConfigError, type Settings } from '../../../shared/config/index.ts';

type RoleSettings = Pick<Settings<'frontend'>, 'roles' | 'routerRole' | 'routerMode'>;

/** What a container does of all that the product does (`--roles`; design, section 3). */
export interface Roles<S> {
  /** Answers clients; else only health, metrics and the routes of operators. */
  readonly servesClients: boolean;
  /** The settings as the roles say. */
  readonly settings: S;
}

/**
 * The roles that the settings name. @default http
 * @throws ConfigError for roles that cannot be had here, or that contradict other settings
 */
export function rolesOf<S extends RoleSettings>(settings: S): Roles<S> {
  const { roles, routerRole, routerMode } = settings;
  if (roles === undefined || roles.length === 0) return { servesClients: true, settings };
  const isRouter = roles.includes('router');
  const problems: string[] = [];
  if (roles.includes('grpc')) problems.push('--roles grpc is not built yet: leave it out');
  if (roles.includes('worker')) problems.push('--roles worker needs a process of its own: stator worker');
  if (isRouter && routerMode !== 'kv') problems.push('--roles router needs --router-mode kv');
  if (isRouter && routerRole !== undefined && routerRole !== 'resident') {
    problems.push(`--roles router and --router-role ${routerRole} exclude each other`);
  }
  if (!isRouter && routerRole === 'resident') problems.push('--router-role resident needs router among the --roles');
  if (problems.length > 0) throw new ConfigError(problems);
  const servesClients = roles.includes('http');
  return { servesClients, settings: isRouter ? { ...settings, routerRole: 'resident' } : settings };
}
