import { describe, expect, it } from 'vitest';
import { builtinModelPath } from '../../../../shared/artifacts/index.ts';
import { SYSTEM, systemClock } from '../../../../shared/clock/index.ts';
import { ConfigError, resolveConfig } from '../../../../shared/config/index.ts';
import type { Engine } from '../../../../shared/engines/index.ts';
import { withMediaGuard } from '../../../../shared/engines/media/guarded-engine.ts';
import { mockEngineFor } from '../../../../shared/engines/mocker/kind.ts';

const read = (argv: readonly string[], env = {}) => resolveConfig('worker', ['--engine=mocker', ...argv], env).settings;

async function mockProblem(argv: readonly string[], at: number, env = {}): Promise<unknown> {
  return mockEngineFor(builtinModelPath(), read(argv, env), { at, clock: SYSTEM.clock }).then(
    () => undefined,
    (error: unknown) => (error instanceof ConfigError ? error.problems : error),
  );
}

describe('settings that only the composed worker can judge are refused with the flag', () => {
  it('ports: one for each worker, each with room for its ranks', async () => {
    const twoWorkers = ['--num-workers=2', '--disaggregation-mode=prefill'];
    expect(await mockProblem([...twoWorkers, '--bootstrap-ports=9000'], 1)).toEqual([
      '--bootstrap-ports: one port is needed for each worker, got 1',
    ]);
    expect(await mockProblem([...twoWorkers, '--zmq-kv-events-ports=5557'], 1)).toEqual([
      '--zmq-kv-events-ports: one port is needed for each worker, got 1',
    ]);
    expect(await mockProblem(['--zmq-kv-events-ports=65535', '--data-parallel-size=2'], 0)).toEqual([
      '--zmq-kv-events-ports 65535: each rank adds its number, and 2 ranks end above 65535',
    ]);
    expect(await mockProblem(['--zmq-kv-events-ports=65534', '--data-parallel-size=2'], 0)).toBeUndefined();
  });

  it('addresses that would let any client reach a server without authentication', async () => {
    const everywhere = { DYN_TCP_RPC_HOST: '0.0.0.0', STATOR_PLANE_TOKEN: 't'.repeat(32) };
    const words = [expect.stringMatching(/^the mock engine's listener for .* on 0\.0\.0\.0 .*STATOR_PLANE_OPEN=on/)];
    for (const argv of [['--disaggregation-mode=prefill'], ['--zmq-kv-events-ports=5557']]) {
      expect(await mockProblem(argv, 0, everywhere)).toEqual(words);
      expect(await mockProblem(argv, 0, { ...everywhere, STATOR_PLANE_OPEN: 'on' })).toBeUndefined();
    }
    expect(await mockProblem([], 0, everywhere)).toBeUndefined(); // has neither
  });

  it('the ids of thoughts', async () => {
    expect(await mockProblem(['--reasoning={}'], 0)).toEqual([
      '--reasoning: start_thinking_token_id must be a token id, got nothing',
    ]);
  });

  it('hosts of media: names, and ends of names', () => {
    const engine = {} as Engine;
    const guard = (hosts: string) => withMediaGuard(engine, read([], { STATOR_MEDIA_ALLOW_HOSTS: hosts }), systemClock);
    for (const hosts of ['a.example', '*.example.com,b-1.example', '*', '10.0.0.1', 'fd00::1']) {
      expect(() => guard(hosts), hosts).not.toThrow();
    }
    for (const host of ['https://a.example', 'a.example:443', 'a.*.example', 'a.example/x']) {
      expect(() => guard(host), host).toThrow(`STATOR_MEDIA_ALLOW_HOSTS "${host}": allowed: host names`);
    }
  });
});
