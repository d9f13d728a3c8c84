import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasMoto } from '../support/aws/deployment.ts';
import { spawnProgram } from '../support/index.ts';
import { GPUS } from './deployments.ts';
import { OURS } from './eks-deployments.ts';
import { devStack, openApp, productionStacks, templatesIn } from './templates.ts';

/** Rules of cfn-lint that templates break, each with its reason. */
const REASONS: Readonly<Record<string, string>> = {
  W3010: 'the settings may name zones, for machines that not every zone has',
  W3005: 'CDK names a dependency that a reference makes as well: once more does no harm',
};

interface Finding {
  readonly Filename: string;
  readonly Rule: { readonly Id: string };
  readonly Message: string;
  readonly Location: { readonly Path: readonly (string | number)[] };
}

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'stator-lint-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function lint(templates: Readonly<Record<string, object>>): Promise<readonly Finding[]> {
  const files = Object.entries(templates).map(([name, template]) => {
    const path = join(folder, `${name}.json`);
    writeFileSync(path, JSON.stringify(template));
    return path;
  });
  const program = ['-c', 'from cfnlint.runner import main; main()'];
  const flags = ['--format', 'json', '--regions', 'us-east-1', '--'];
  const child = spawnProgram(process.env.STATOR_TEST_MOTO_PYTHON ?? '', [...program, ...flags, ...files]);
  await child.exited; // its code says which kinds of findings there are
  if (child.stderr() !== '') throw new Error(child.stderr());
  return JSON.parse(child.stdout()) as readonly Finding[];
}

/** Templates of everything that a deployment may have. CDK holds them against rules of its own, and throws by them. */
function synthesize(): Readonly<Record<string, object>> {
  const domain = { name: 'llm.example.com', containerName: 'edge.example.com', certificateArn: CERTIFICATE };
  const edges = { function: { url: true }, container: { listener: 'public' as const, grpc: true } };
  const limits = { requestsPerAddress: 2000 };
  const [dev, production, onEks] = [openApp(true), openApp(true), openApp(true)];
  devStack(dev, { edges: { function: edges.function }, limits });
  const { models, network, machineImages, fleets } = GPUS;
  const stacks = templatesIn(
    productionStacks(production, { edges, domain, limits, models, network, machineImages, fleets }),
  );
  const { Eks, Planner, ...others } = templatesIn(productionStacks(onEks, OURS));
  const ofEks = { Eks: Eks!, 'Planner of Eks': Planner!, 'Fleet-large': others['Fleet-large']! };
  return Object.fromEntries(
    Object.entries({ ...templatesIn(dev), ...stacks, ...ofEks }).map(([name, template]) => [name, template.toJSON()]),
  );
}

let synthesized: Readonly<Record<string, object>> | undefined;

describe('the rules that CDK brings', () => {
  it('are kept by all stacks', () => {
    synthesized = synthesize();
    expect(Object.keys(synthesized)).toEqual([
      'Stator',
      'Data',
      'Planner',
      'Edge',
      'Ami',
      'Fleet-chat-a1',
      'Fleet-code-prefill',
      'Fleet-code-decode',
      'Fleet-mock',
      'Eks',
      'Planner of Eks',
      'Fleet-large',
    ]);
  });
});

/** Has a property that does not exist. */
const WRONG = { Resources: { Bucket: { Type: 'AWS::S3::Bucket', Properties: { BucketNam: 'a-bucket' } } } };

describe.runIf(hasMoto())('cfn-lint', () => {
  let findings: readonly Finding[];
  const isOfWrong = ({ Filename }: Finding): boolean => basename(Filename) === 'wrong.json';
  // In one go: reading its rules takes the linter longer than all templates.
  beforeAll(async () => {
    findings = await lint({ ...(synthesized ?? synthesize()), wrong: WRONG });
  }, 400_000); // it waits for its turn, as tests of this project do

  it('finds nothing in the stacks but what has a reason', () => {
    const told = findings
      .filter((finding) => !isOfWrong(finding))
      .map(({ Rule, Message, Location }) => `${Rule.Id} ${Location.Path.join('/')}: ${Message}`);
    expect(told.filter((text) => REASONS[text.split(' ')[0] ?? ''] === undefined)).toEqual([]);
    expect(Object.keys(REASONS).filter((id) => !told.some((text) => text.startsWith(id)))).toEqual([]);
  });

  it('would notice a property that does not exist', () => {
    expect(findings.filter(isOfWrong).map(({ Rule }) => Rule.Id)).toEqual(['E3002']);
  });
});

const CERTIFICATE = 'arn:aws:acm:us-east-1:123456789012:certificate/12345678-1234-1234-1234-123456789012';
