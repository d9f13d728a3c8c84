import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type App, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, it } from 'vitest';
import { devStack, openApp, productionStacks } from './templates.ts';

/** Rules of cdk-nag that a deployment breaks on purpose, each with its reason. */
const REASONS: Readonly<Record<string, string>> = {
  'AwsSolutions-APIG1': 'access logs need an account-wide role; the function logs a line for each request',
  'AwsSolutions-APIG2': 'requests are checked by the function, which answers as the APIs that it speaks do',
  'AwsSolutions-APIG3': 'a firewall by limits.requestsPerAddress: it costs more than all of dev',
  'AwsSolutions-APIG4': 'API keys of Stator, which the function checks: stock clients send them as a bearer token',
  'AwsSolutions-APIG6': 'as APIG1',
  'AwsSolutions-COG4': 'as APIG4',
  'AwsSolutions-ECS2': 'what is in the environment is no secret; secrets come from Secrets Manager',
  'AwsSolutions-ECS4': 'dev does without container insights, which cost more than its task',
  'AwsSolutions-IAM4': 'network interfaces of a function, and what empties a bucket: neither has a narrower policy',
  'AwsSolutions-IAM5':
    'files of a bucket have no names before they are pushed; a token of ECR is for the whole registry',
  'AwsSolutions-L1': 'Node 22, for which the function is measured, and what CDK brings to empty a bucket',
  'AwsSolutions-S1': 'files of models have checksums for names, and frontends log what they fetch',
  'AwsSolutions-SMG4': 'a fleet has one token at a time: a rotation restarts it, which is not for a timer to do',
  'AwsSolutions-VPC7': 'flow logs are for whoever wants them: nothing here accepts connections from outside',
};

/** Rules that the app breaks, each once. */
function findings(build: (app: App) => unknown): readonly string[] {
  const app = openApp();
  build(app);
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  let directory: string;
  try {
    directory = app.synth().directory;
  } catch {
    directory = app.outdir;
  }
  const report = readFileSync(join(directory, 'validation-report.json'), 'utf8');
  return [...new Set(report.match(/AwsSolutions-[A-Z0-9]+/g) ?? [])].sort();
}

const seen = new Set<string>();

describe('cdk-nag', { timeout: 60_000 }, () => {
  it.each([
    ['dev', devStack],
    ['production', productionStacks],
  ] as const)('finds nothing in %s but what has a reason', (_name, build) => {
    const found = findings((app) => build(app));
    expect(found.filter((rule) => REASONS[rule] === undefined)).toEqual([]);
    for (const rule of found) seen.add(rule);
  });

  it('has no reason that nothing needs any more', () => {
    expect(Object.keys(REASONS).filter((rule) => !seen.has(rule))).toEqual([]);
  });
});
