import { afterEach, expect, it, vi } from 'vitest';
import { homeFolder, resolveConfig, stateFolder } from '../../../shared/config/index.ts';

afterEach(() => void vi.unstubAllEnvs());

it('finds a folder of the user in the temporary one where there is no home', () => {
  vi.stubEnv('TMPDIR', '/temporary');
  vi.stubEnv('HOME', '');
  expect(homeFolder()).toBe(`/temporary/stator-${process.getuid?.()}`);
  expect(stateFolder({})).toBe(`/temporary/stator-${process.getuid?.()}/.local/state/stator`);
  const { settings } = resolveConfig('planner', ['--planner-dir=~/plans'], {});
  expect(settings.plannerDir).toBe(`/temporary/stator-${process.getuid?.()}/plans`);
});

it('takes a folder of states that is absolute', () => {
  vi.stubEnv('HOME', '/home/ann');
  expect(stateFolder({ XDG_STATE_HOME: '/states' })).toBe('/states/stator');
  expect(stateFolder({ XDG_STATE_HOME: 'states' })).toBe('/home/ann/.local/state/stator');
  expect(stateFolder({ XDG_STATE_HOME: '' })).toBe('/home/ann/.local/state/stator');
});
