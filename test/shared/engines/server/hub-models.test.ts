import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { builtinModelPath } from '../../../../shared/artifacts/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { mocker } from '../../../../shared/engines/mocker/kind.ts';
import { NO_PORTS } from '../../../../shared/engines/server/launch-plan.ts';
import { sglang, sglangLaunch } from '../../../../shared/engines/sglang/launch.ts';
import { trtllmLaunch } from '../../../../shared/engines/trtllm/launch.ts';
import type { EngineInfo, EngineKind, ModelFacts } from '../../../../shared/engines/types.ts';
import { vllm, vllmLaunch } from '../../../../shared/engines/vllm/launch.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { type HubBed, openHubBed } from '../../../support/hub/hub-bed.ts';
import { COMMIT } from '../../../support/hub/hub-server.ts';

const NAMES = ['config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json'];
const FILES = Object.fromEntries(NAMES.map((name) => [name, readFileSync(join(builtinModelPath(), name))]));
const COMMIT_2 = 'a'.repeat(40);

let bed: HubBed;
beforeEach(async () => {
  bed = await openHubBed();
  bed.hub.models.set('org/name', { files: FILES });
  bed.hub.models.set('org/tokenizer', { files: FILES, commit: COMMIT_2, revisions: ['v2'] });
});
afterEach(() => bed.close());

const configOf = (...flags: readonly string[]) =>
  resolveConfig('worker', flags, { HF_ENDPOINT: bed.hub.url, HF_HOME: bed.home });

/** Opens an engine without starting it, and returns the facts about its model. */
async function factsOf(kind: EngineKind, ...flags: readonly string[]): Promise<ModelFacts> {
  const context = { clock: bed.clock, logger: captureLogger().logger, at: 0, onDroppedKvEvents: () => {} };
  const { engine, model } = await kind.open(configOf(...flags), context);
  await engine.stop();
  return typeof model === 'function' ? model({ modelInput: 'Tokens' } as EngineInfo) : model;
}

const pathOf = ({ files }: ModelFacts, name: string): string | undefined => files?.[name]?.path.slice(bed.home.length);

describe('an engine with a model on the hub', () => {
  it.each<[EngineKind, readonly string[]]>([
    [vllm, ['--engine=vllm', '--model=org/name']],
    [vllm, ['--engine=vllm', '--model-path=org/name']],
    [sglang, ['--engine=sglang', '--model-path=org/name']],
    [mocker, ['--engine=mocker', '--model-path=org/name']],
  ])('gets the files that frontends need from there', async (kind, flags) => {
    const facts = await factsOf(kind, ...flags);
    expect(Object.keys(facts.files ?? {}).sort()).toEqual([...NAMES].sort());
    expect(pathOf(facts, 'tokenizer.json')).toBe(`/hub/models--org--name/snapshots/${COMMIT}/tokenizer.json`);
    expect(facts.sourcePath).toBe('org/name');
    expect(kind.displayName(configOf(...flags).settings)).toBe('org/name');
  });

  it('gets those of the revision that the engine loads, and its card names that', async () => {
    bed.hub.models.set('org/name', { files: FILES, commit: COMMIT_2, revisions: ['v2'] });
    const facts = await factsOf(vllm, '--engine=vllm', '--model=org/name', '--revision', 'v2');
    expect(pathOf(facts, 'config.json')).toBe(`/hub/models--org--name/snapshots/${COMMIT_2}/config.json`);
    expect(facts.sourcePath).toBe('org/name@v2');
  });

  it('gets the tokenizer that the engine takes from another model', async () => {
    const other = ['--tokenizer', 'org/tokenizer', '--tokenizer-revision', 'v2'];
    const facts = await factsOf(vllm, '--engine=vllm', '--model=org/name', ...other);
    expect(pathOf(facts, 'tokenizer.json')).toBe(`/hub/models--org--tokenizer/snapshots/${COMMIT_2}/tokenizer.json`);
    expect(pathOf(facts, 'config.json')).toBe(`/hub/models--org--name/snapshots/${COMMIT}/config.json`);
  });

  it('is not opened if the hub has no such model, and the reason says what else helps', async () => {
    await expect(factsOf(vllm, '--engine=vllm', '--model=org/absent')).rejects.toThrow(
      /has no model org\/absent for this user: .* Or give their folder with --model-path, or let the engine tokenize/,
    );
  });

  it('is started with the revision after @ as a flag, unless it has one of its own', async () => {
    const argumentsIn = (kind: 'vllm' | 'sglang' | 'trtllm', ...more: readonly string[]): string => {
      const config = configOf(`--engine=${kind}`, ...more);
      const plan = kind === 'vllm' ? vllmLaunch(config) : kind === 'sglang' ? sglangLaunch(config) : undefined;
      return (plan ?? trtllmLaunch(config, bed.home)).command(NO_PORTS).args.join(' ');
    };
    expect(argumentsIn('vllm', '--model-path=org/name@v2')).toMatch(/serve org\/name .*--revision v2/);
    expect(argumentsIn('trtllm', '--model-path=org/name@v2')).toMatch(/^org\/name .*--revision v2/);
    const own = argumentsIn('vllm', '--model-path=org/name@v2', '--revision', 'v3');
    expect(own.match(/--revision \S+/g)).toEqual(['--revision v3']);
    expect(argumentsIn('vllm', '--model-path=org/name')).not.toContain('--revision');
    expect(argumentsIn('sglang', '--model=org/name')).not.toContain('--revision');
  });
});
