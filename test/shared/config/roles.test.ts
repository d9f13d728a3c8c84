import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../shared/config/index.ts';

const of = (...argv: string[]) => resolveConfig('frontend', argv, {}).settings.routerRole;
const KV = '--router-mode=kv';

describe('the roles of a container', () => {
  it('change nothing unless it names some', () => {
    expect(of()).toBeUndefined();
    expect(of(KV, '--router-role=choose')).toBe('choose');
    expect(of(KV, '--roles=http')).toBeUndefined();
  });

  it('make it a resident router, beside clients or alone', () => {
    expect(of(KV, '--roles=http,router')).toBe('resident');
    expect(of(KV, '--roles=router')).toBe('resident');
    expect(of('--load-aware', '--roles=router')).toBe('resident');
  });

  it('come from the environment as well', () => {
    const { settings } = resolveConfig('frontend', [], { STATOR_ROLES: 'http,router', DYN_ROUTER_MODE: 'kv' });
    expect(settings.routerRole).toBe('resident');
  });

  it.each([
    [['--roles=worker'], 'worker needs a process of its own: stator worker'],
    [['--roles=router'], '--roles router needs --router-mode kv'],
    [[KV, '--roles=router', '--router-role=embedded'], '--roles router allows no --router-role but resident'],
    [[KV, '--roles=http', '--router-role=resident'], '--router-role resident needs router among the --roles'],
  ])('%j are refused', (argv, problem) => {
    expect(() => of(...argv)).toThrow(problem);
  });
});
