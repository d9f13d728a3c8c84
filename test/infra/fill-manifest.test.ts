import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { deployEks } from './eks-deployments.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'stator-manifest-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function fill(text: string, values: string) {
  const path = join(folder, 'a.yaml');
  writeFileSync(path, text);
  return spawnSync(process.execPath, ['infra/fill-manifest.mjs', path], { input: values, encoding: 'utf8' });
}

describe('the command that fills a manifest', { timeout: 120_000 }, () => {
  it('puts the values of the stack into their places, and leaves all else as it is', () => {
    const text = 'a: <stator:Table>\nb: $(POD_NAME) <HOME> <stator:Table>-1\n';
    expect(fill(text, '{"Table":"Stator-Data-1A2B"}\n')).toMatchObject({
      status: 0,
      stdout: 'a: Stator-Data-1A2B\nb: $(POD_NAME) <HOME> Stator-Data-1A2B-1\n',
    });
  });

  it('has a value for each place of the example', () => {
    const { templates, text } = deployEks();
    for (const stack of ['Eks', 'Fleet-chat-a1', 'Fleet-large']) {
      const [output] = Object.values(templates[stack]!.findOutputs('ManifestValues'));
      // What CloudFormation makes of the output: each reference becomes a text.
      const parts = (output!.Value as { 'Fn::Join': [string, unknown[]] })['Fn::Join'][1];
      const values = parts.map((part) => (typeof part === 'string' ? part : 'made')).join('');
      const { status, stdout, stderr } = fill(text(stack), values);
      expect([status, stderr]).toEqual([0, '']);
      expect(stdout).toContain('made');
      expect(stdout).not.toContain('<stator:');
    }
  });

  it.each([
    ['a: <stator:Table> <stator:Other>', '{"Other":"b"}', 'the values lack Table: deploy the stack'],
    ['a: b', '', 'the standard input is no JSON object: it must be the output ManifestValues of the stack'],
    ['a: b', '3', 'the standard input is no JSON object'],
  ])('fails with one line and prints nothing: %s %s', (text, values, message) => {
    const { status, stdout, stderr } = fill(text, values);
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toContain(message);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });
});
