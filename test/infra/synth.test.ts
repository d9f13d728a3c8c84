import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { podFleetsOf } from '../../infra/constructs/eks/pod-fleets.ts';
import eksExample from '../../infra/examples/eks.config.ts';
import { readSettings } from '../../infra/settings/index.ts';
import { spawnNode } from '../support/index.ts';

let outdir: string;
beforeEach(() => {
  outdir = mkdtempSync(join(tmpdir(), 'stator-synth-'));
});
afterEach(() => rmSync(outdir, { recursive: true, force: true }));

/** Runs the command of `cdk.json` as the CDK CLI does, without credentials. */
async function synthesize(
  context: Record<string, string> = {},
  folder = outdir,
): Promise<{ code: number | null; stderr: string; pid: number }> {
  const { app } = JSON.parse(readFileSync('cdk.json', 'utf8')) as { app: string };
  const [command, ...args] = app.split(' ');
  expect(command).toBe('node');
  const synth = spawnNode(args, {
    env: {
      CDK_OUTDIR: folder,
      CDK_CONTEXT_JSON: JSON.stringify(context),
      CDK_VALIDATION: 'false', // loads for seconds; `lint.test.ts` has it
      AWS_ACCESS_KEY_ID: '',
      AWS_PROFILE: '',
    },
  });
  return { code: await synth.exited, stderr: synth.stderr(), pid: synth.pid };
}

/** Returns the names of the stacks of an assembly. */
function stacksIn(folder: string): readonly (string | undefined)[] {
  const { artifacts } = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as {
    artifacts: Record<string, { type: string; properties: { stackName?: string } }>;
  };
  const stacks = Object.values(artifacts).filter(({ type }) => type === 'aws:cloudformation:stack');
  return stacks.map(({ properties }) => properties.stackName).sort();
}

describe('the command that cdk runs', { timeout: 120_000 }, () => {
  it('writes a stack with the bundled function, without credentials, network or Docker, the same one beside another run', async () => {
    const folders = ['one', 'other'].map((name) => join(outdir, name));
    const ended = await Promise.all(folders.map((folder) => synthesize({}, folder)));
    for (const { code, stderr } of ended) expect(code, stderr).toBe(0);
    const [one = '', other = ''] = folders;
    const files = readdirSync(one);
    expect(files).toEqual(expect.arrayContaining(['manifest.json', 'Stator.template.json']));
    const assets = files.filter((name) => name.startsWith('asset.'));
    // The function, the sources of the image, and what empties the bucket.
    expect(assets).toHaveLength(3);
    const contents = assets.map((asset) => readdirSync(join(one, asset)));
    expect(contents).toContainEqual(expect.arrayContaining(['index.mjs']));
    expect(contents).toContainEqual(expect.arrayContaining(['package-lock.json', 'shared', 'functions', 'infra']));
    expect(readdirSync(other)).toEqual(files); // assets are called after what is in them
    const left = readdirSync('node_modules/.cache/stator');
    for (const { pid } of ended) expect(left.filter((name) => name.startsWith(`synth-${pid}-`))).toEqual([]);
  });

  it('writes the stacks of the example with GPUs', async () => {
    const { code, stderr } = await synthesize({ env: 'production', config: 'infra/examples/ec2.config.ts' });
    expect(code, stderr).toBe(0);
    expect(stacksIn(outdir)).toEqual([
      'Stator-Ami',
      'Stator-Data',
      'Stator-Edge',
      'Stator-Fleet-chat-a1',
      'Stator-Fleet-code-decode',
      'Stator-Fleet-code-prefill',
      'Stator-Planner',
    ]);
  });

  it('writes the stacks of the example on EKS, and its manifests', async () => {
    const { code, stderr } = await synthesize({ env: 'production', config: 'infra/examples/eks.config.ts' });
    expect(code, stderr).toBe(0);
    const ofCluster = ['Stator-Eks', 'Stator-Fleet-chat-a1', 'Stator-Fleet-large'];
    expect(stacksIn(outdir)).toEqual(['Stator-Data', 'Stator-Edge', ...ofCluster, 'Stator-Planner']);
    expect(readdirSync(join(outdir, 'k8s')).sort()).toEqual(ofCluster.map((name) => `${name}.yaml`));
    const packed = readdirSync(outdir).flatMap((name) => {
      const path = join(outdir, name, 'fleets.json');
      return name.startsWith('asset.') && existsSync(path) ? [readFileSync(path, 'utf8')] : [];
    });
    expect(packed).toEqual([JSON.stringify(podFleetsOf(readSettings(eksExample, 'file')))]);
  });

  it.each([
    [{ env: 'staging' }, '-c env=staging: must be one of dev, production'],
    [{ env: 'production', rollout: 'fast' }, '-c rollout=fast: must be one of gradual, now'],
    [{ rollout: 'now' }, '-c rollout=now: dev is always replaced at once'],
    [{ config: 'none.ts' }, 'none.ts: there is no such file'],
  ])('fails before it makes anything with %j', async (context, message) => {
    const { code, stderr } = await synthesize(context as Record<string, string>);
    expect(code).not.toBe(0);
    expect(stderr).toContain(message);
    expect(stderr.trim().split('\n')).toHaveLength(1); // no stack of this program
    expect(readdirSync(outdir)).toEqual([]);
  });
});
