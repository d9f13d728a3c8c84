import { describe, expect, it } from 'vitest';
import { rolesOf } from '../../../../functions/compose/routing/roles.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';

const of = (...argv: string[]) => rolesOf(resolveConfig('frontend', argv, {}).settings);
const KV = '--router-mode=kv';

describe('the roles of a container', () => {
  it('are those of its command unless it names some', () => {
    expect(of()).toMatchObject({ servesClients: true, settings: { routerRole: undefined } });
    expect(of(KV, '--router-role=choose')).toMatchObject({ servesClients: true, settings: { routerRole: 'choose' } });
  });

  it('make it a resident router, beside clients or alone', () => {
    expect(of(KV, '--roles=http,router')).toMatchObject({ servesClients: true, settings: { routerRole: 'resident' } });
    expect(of(KV, '--roles=router')).toMatchObject({ servesClients: false, settings: { routerRole: 'resident' } });
    expect(of(KV, '--roles=http')).toMatchObject({ servesClients: true, settings: { routerRole: undefined } });
  });

  it('come from the environment as well', () => {
    const { settings } = resolveConfig('frontend', [], { STATOR_ROLES: 'http,router', DYN_ROUTER_MODE: 'kv' });
    expect(rolesOf(settings).settings.routerRole).toBe('resident');
  });

  it.each([
    [['--roles=http,grpc'], '--roles grpc is not built yet'],
    [['--roles=worker'], 'stator worker'],
    [['--roles=router'], '--roles router needs --router-mode kv'],
    [[KV, '--roles=router', '--router-role=embedded'], '--roles router and --router-role embedded exclude each other'],
    [[KV, '--roles=http', '--router-role=resident'], '--router-role resident needs router among the --roles'],
  ])('%j are refused', (argv, problem) => {
    expect(() => of(...argv)).toThrow(problem);
  });
});
