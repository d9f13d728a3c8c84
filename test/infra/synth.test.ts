import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { spawnNode } from '../support/index.ts';

let outdir: string;
beforeEach(() => {
  outdir = mkdtempSync(join(tmpdir(), 'stator-synth-'));
});
afterEach(() => rmSync(outdir, { recursive: true, force: true }));

/** Runs the command of `cdk.json` as the CDK CLI does, without credentials. */
async function synthesize(context: Record<string, string> = {}): Promise<{ code: number | null; stderr: string }> {
  const { app } = JSON.parse(readFileSync('cdk.json', 'utf8')) as { app: string };
  const [command, ...args] = app.split(' ');
  expect(command).toBe('node');
  const synth = spawnNode(args, {
    env: {
      CDK_OUTDIR: outdir,
      CDK_CONTEXT_JSON: JSON.stringify(context),
      CDK_VALIDATION: 'false', // loads for seconds; `lint.test.ts` has it
      AWS_ACCESS_KEY_ID: '',
      AWS_PROFILE: '',
    },
  });
  return { code: await synth.exited, stderr: synth.stderr() };
}

describe('the command that cdk runs', { timeout: 120_000 }, () => {
  it('writes a stack with the bundled function, without credentials, network or Docker', async () => {
    expect(await synthesize()).toMatchObject({ code: 0 });
    const files = readdirSync(outdir);
    expect(files).toEqual(expect.arrayContaining(['manifest.json', 'Stator.template.json']));
    const assets = files.filter((name) => name.startsWith('asset.'));
    // The function, the sources of the image, and what empties the bucket.
    expect(assets).toHaveLength(3);
    const contents = assets.map((asset) => readdirSync(join(outdir, asset)));
    expect(contents).toContainEqual(expect.arrayContaining(['index.mjs']));
    expect(contents).toContainEqual(expect.arrayContaining(['package-lock.json', 'shared', 'functions', 'infra']));
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
