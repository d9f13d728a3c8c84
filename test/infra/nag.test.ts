import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type App, Stack, Validations } from 'aws-cdk-lib';
import { PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, it } from 'vitest';
import { ACCEPTED, isAccepted } from './accepted-findings.ts';
import { EVERYTHING, GPUS } from './deployments.ts';
import { OURS, YOURS } from './eks-deployments.ts';
import { devStack, openApp, productionStacks } from './templates.ts';

/** What a deployment breaks: `RULE` or `RULE[WHAT]`, and the path of a construct below its stack. */
interface Finding {
  readonly rule: string;
  readonly path: string;
}

interface Report {
  readonly pluginReports: readonly {
    readonly violations: readonly {
      readonly ruleName: string;
      readonly violatingConstructs: readonly { readonly constructPath: string }[];
    }[];
  }[];
}

function findings(build: (app: App) => unknown): readonly Finding[] {
  const app = openApp();
  build(app);
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  let directory: string;
  try {
    directory = app.synth().directory;
  } catch {
    directory = app.outdir;
  }
  const report = JSON.parse(readFileSync(join(directory, 'validation-report.json'), 'utf8')) as Report;
  return report.pluginReports.flatMap(({ violations }) =>
    violations.filter(isOfNag).flatMap(({ ruleName, violatingConstructs }) =>
      violatingConstructs.map(({ constructPath }) => ({
        rule: ruleName,
        path: constructPath
          .replace(/^Stator\/((Data|Eks|Planner|Edge|Ami|Fleet-[^/]+)\/(?!Service))?/, '')
          .replace(/\/Resource$/, ''),
      })),
    ),
  );
}

/** The report has the app's own warnings, too. */
const isOfNag = ({ ruleName }: { readonly ruleName: string }): boolean => ruleName.startsWith('AwsSolutions-');

const seen: Finding[] = [];

describe('cdk-nag', { timeout: 60_000 }, () => {
  it.each([
    ['dev', devStack],
    ['production', productionStacks],
    ['production with everything', (app: App) => productionStacks(app, EVERYTHING)],
    ['production with GPUs', (app: App) => productionStacks(app, GPUS)],
    ['production with a cluster of EKS', (app: App) => productionStacks(app, OURS)],
    ['production in a cluster of yours', (app: App) => productionStacks(app, YOURS)],
  ] as const)('finds nothing in %s but what a construct has a reason for', (_name, build) => {
    const found = findings((app) => build(app));
    expect(found.filter((finding) => !isAccepted(finding))).toEqual([]);
    seen.push(...found);
  });

  it('has no reason that nothing needs any more', () => {
    const unused = ACCEPTED.filter((accepted) => !seen.some((finding) => isAccepted(finding, [accepted])));
    expect(unused).toEqual([]);
  });

  it('would notice another role that may do something to everything', () => {
    const found = findings((app) => {
      const stack = devStack(app);
      const role = new Role(Stack.of(stack), 'Another', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
      role.addToPolicy(new PolicyStatement({ actions: ['s3:GetObject'], resources: ['*'] }));
    });
    expect(found.filter((finding) => !isAccepted(finding))).toEqual([
      { rule: 'AwsSolutions-IAM5[Resource::*]', path: 'Another/DefaultPolicy' },
    ]);
  });
});
