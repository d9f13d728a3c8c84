import { describe, expect, it } from 'vitest';
import { startedWorkers } from '../../../../shared/commands/index.ts';
import { type Environment, resolveConfig } from '../../../../shared/config/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';

const PLACE = { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: '/tmp/fleet' };

/** What workers of a planner are started with, and what is warned of. */
function started(env: Environment, workersMax: number, ...engine: readonly string[]) {
  const { logger, lines } = captureLogger();
  const all = { ...PLACE, ...env };
  const config = resolveConfig('planner', ['--planner-connector=local', '--', '--engine=mocker', ...engine], all);
  const { argv } = startedWorkers(config, { namespace: 'ns', workersMax }, all, logger);
  return { argv, warnings: lines };
}

describe('the workers of a planner', () => {
  it.each([
    [{ DYN_SYSTEM_PORT: '9100' }, [], 'DYN_SYSTEM_PORT "9100"', 'a range of 4 or more'],
    [{ DYN_SYSTEM_PORT: '9100-9102' }, [], 'DYN_SYSTEM_PORT "9100-9102"', 'a range of 4 or more'],
    [{ DYN_TCP_RPC_PORT: '8800' }, [], 'DYN_TCP_RPC_PORT "8800"', 'a range of 4 or more'],
    [{ STATOR_CONTROL_PORT: '9400' }, [], 'STATOR_CONTROL_PORT "9400"', 'leave it out'],
    [{}, ['--zmq-kv-events-ports=5557'], '--zmq-kv-events-ports "5557"', 'leave it out'],
  ])('are refused ports that only some of them would get: %o %o', (env, engine, named, remedy) => {
    const refused = () => started(env, 4, ...engine);
    expect(refused).toThrow(`${named} is not enough for the 4 workers that the planner may have: leave it out`);
    expect(refused).toThrow(remedy);
  });

  it.each([
    [{ DYN_SYSTEM_PORT: '9100' }, 1],
    [{ DYN_SYSTEM_PORT: '9100-9103', DYN_TCP_RPC_PORT: '8800-8803' }, 4],
    [{ DYN_SYSTEM_PORT: '0', STATOR_CONTROL_PORT: '0', DYN_TCP_RPC_PORT: '0' }, 4],
    [{ DYN_SYSTEM_PORT: '-1', STATOR_CONTROL_PORT: '-1' }, 4],
    [{}, 4],
  ])('have ports where there is one for each: %o, at most %i workers', (env, workersMax) => {
    const { argv, warnings } = started(env, workersMax);
    expect(argv).toEqual(expect.arrayContaining(['--engine=mocker', '--namespace=ns']));
    expect(warnings).toEqual([]);
  });
});
