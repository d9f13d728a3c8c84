import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { runDeploy } from '../../../shared/commands/deploy.ts';
import { quotasNeeded } from '../../../shared/commands/deploy-needs.ts';
import { GPUS } from '../../infra/deployments.ts';
import { devTemplate, productionTemplates } from '../../infra/templates.ts';
import { type AccountState, FakeAccount } from '../../support/aws/fake-account.ts';

/** Quotas of an account that has enough for dev. */
const ENOUGH: Readonly<Record<string, number>> = {
  'L-B99A9384': 1000,
  'L-3032A538': 6,
  'L-F678F1CE': 5,
  'L-0263D0A3': 5,
};

let folder: string;
let account: FakeAccount;
let printed = '';
const print = (text: string): void => {
  printed += text;
};
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'stator-deploy-'));
  writeFileSync(join(folder, 'Stator.template.json'), JSON.stringify(devTemplate().toJSON()));
  account = await FakeAccount.start();
});
afterEach(() => vi.unstubAllEnvs());
afterAll(() => {
  account.close();
  rmSync(folder, { recursive: true, force: true });
});

const ZONES = { 'eu-west-1a': 'euw1-az2', 'eu-west-1b': 'euw1-az3', 'eu-west-1c': 'euw1-az1' };

/** Checks templates, those of dev unless others are named, against an account in which nothing is deployed but what `state` says. */
function check(state: AccountState, region = 'eu-west-1', of = folder): Promise<string> {
  account.state = { deployed: {}, zones: ZONES, ...state };
  vi.stubEnv('AWS_ENDPOINT_URL', account.url);
  vi.stubEnv('AWS_REGION', region);
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'somebody');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'somebody');
  printed = '';
  return runDeploy(['check', of], print);
}

describe('what a deployment takes of quotas', () => {
  it('is half a core, a VPC and some streams for dev', () => {
    const needs = Object.fromEntries(quotasNeeded([devTemplate().toJSON()]).map(({ code, needed }) => [code, needed]));
    expect(needs).toEqual({ 'L-B99A9384': 10, 'L-3032A538': 0.5, 'L-F678F1CE': 1 });
  });

  it('counts in production the tasks that replace others beside them, addresses, and what is reserved', () => {
    const stacks = productionTemplates({ edges: { function: { concurrencyMax: 300 } } });
    const needs = quotasNeeded(Object.values(stacks).map((template) => template.toJSON()));
    expect(Object.fromEntries(needs.map(({ code, needed }) => [code, needed]))).toEqual({
      'L-B99A9384': 400,
      'L-3032A538': 2 * 2 * 1 + 3 * 0.5 + 2 * 2 * 0.25, // edges and workers twice, NATS servers once
      'L-F678F1CE': 1,
      'L-0263D0A3': 3,
    });
  });
});

/** Quotas that the example with GPUs needs. */
const FOR_GPUS = {
  ...ENOUGH,
  'L-3032A538': 7,
  'L-DB2E81BA': (4 + 1) * 48 + 4 * 4 + 6 * 4,
  'L-3819A6DF': 8 * 96 + 6 * 4,
  'L-7A658B76': 50,
};

describe('machines with GPUs', () => {
  let gpus: string;
  beforeAll(() => {
    gpus = mkdtempSync(join(tmpdir(), 'stator-gpus-'));
    for (const [name, template] of Object.entries(productionTemplates(GPUS)))
      writeFileSync(join(gpus, `${name}.template.json`), JSON.stringify(template.toJSON()));
  });
  afterAll(() => rmSync(gpus, { recursive: true, force: true }));
  const all = Object.keys(ZONES);
  const offerings = { 'g6e.12xlarge': ['eu-west-1a'], 'g6e.24xlarge': ['eu-west-1b'], 'g6.xlarge': all };

  it('take the quotas of their family and market, with the largest type, and disks', () => {
    const needs = quotasNeeded(Object.values(productionTemplates(GPUS)).map((template) => template.toJSON()));
    const ofMachines = needs.filter(({ service }) => service === 'ec2' || service === 'ebs');
    // A disk has 150 GiB, and 20 more for the weights of the small model.
    const tib = ((5 + 8) * 150 + (4 + 6 + 6) * 170) / 1024;
    expect(Object.fromEntries(ofMachines.map(({ code, needed }) => [code, needed]))).toEqual({
      'L-0263D0A3': 3,
      'L-DB2E81BA': FOR_GPUS['L-DB2E81BA'],
      'L-3819A6DF': FOR_GPUS['L-3819A6DF'],
      'L-7A658B76': Math.ceil(10 * tib) / 10,
    });
  });

  it('are looked for in the zones of each option', async () => {
    const text = await check({ quotas: FOR_GPUS, offerings }, 'eu-west-1', gpus);
    expect(text).toContain(
      'machines of chat 0-on-demand: g6e.12xlarge in 1 of 3 zones; not in eu-west-1b, eu-west-1c\n',
    );
    expect(text).toContain('machines of chat 1-spot: g6e.12xlarge, g6e.24xlarge in 2 of 2 zones\n');
    expect(text).toContain('machines of code-decode 0-on-demand: g6.xlarge in 3 of 3 zones\n');
    expect(text).toMatch(/^On-Demand G and VT vCPU {12}has {4}280 {2}needs {4}280 {2}enough$/m);
  });

  it('fail the check where no zone of an option has them, or a quota is too small', async () => {
    const elsewhere = { ...offerings, 'g6e.12xlarge': ['eu-west-1c'], 'g6e.24xlarge': [] };
    await expect(check({ quotas: FOR_GPUS, offerings: elsewhere }, 'eu-west-1', gpus)).rejects.toThrow(
      'chat 1-spot can start no machine: choose zones among eu-west-1c',
    );
    const none = { 'g6.xlarge': all };
    await expect(check({ quotas: FOR_GPUS, offerings: none }, 'eu-west-1', gpus)).rejects.toThrow(
      'chat 0-on-demand, chat 1-spot can start no machine: choose other types, or another region',
    );
    await expect(check({ quotas: { ...FOR_GPUS, 'L-3819A6DF': 0 }, offerings }, 'eu-west-1', gpus)).rejects.toThrow(
      'ask for more in the console of Service Quotas',
    );
    expect(printed).toMatch(/Spot G and VT vCPU .* too small \(the most machines of all options, .*; ec2 L-3819A6DF\)/);
  });

  it('fail the check where the account may not look for them', async () => {
    await expect(check({ quotas: FOR_GPUS }, 'eu-west-1', gpus)).rejects.toThrow(/^some needs are missing or unknown$/);
    expect(printed).toContain('zones that have the machines unknown: ec2: You are not authorized');
  });

  it('are estimated with the discount of spot that is given', async () => {
    const monthOf = async (...flags: string[]) =>
      /^more machines of code-decode 1-spot +6 +([\d.]+)/m.exec(
        await runDeploy(['estimate', gpus, ...flags], print),
      )?.[1];
    const disk = 170 * 0.08 + 875 * 0.04 + 1000 * 0.005;
    expect(await monthOf('--spot-discount', '50')).toBe((6 * (0.8048 * 730 * 0.5 + disk)).toFixed(2));
    expect(await monthOf()).toBe((6 * (0.8048 * 730 * 0.4 + disk)).toFixed(2));
    await expect(monthOf('--spot-discount', '101')).rejects.toThrow('--spot-discount must be a number from 0 to 100');
  });
});

describe('stator deploy check', () => {
  it('says what there is, and that it is enough', async () => {
    const text = await check({ quotas: ENOUGH });
    expect(text.trimEnd().split('\n')).toEqual([
      'Concurrent executions of Lambda    has   1000  needs     10  enough',
      'Fargate On-Demand vCPU             has      6  needs    0.5  enough',
      'VPCs per Region                    has      5  needs      1  enough',
      'Availability zones with Fargate    has      2  needs      2  enough',
    ]);
  });

  it('fails where one is too small, and says which and for what', async () => {
    await expect(check({ quotas: { ...ENOUGH, 'L-3032A538': 0 } })).rejects.toThrow(
      /^some needs are missing or unknown: ask for more in the console of Service Quotas, in the region .*$/,
    );
    expect(printed).toMatch(
      /has {6}0 {2}needs {4}0\.5 {2}too small \(tasks, and their successors beside them; fargate L-3032A538\)/,
    );
  });

  it('fails where one may not be read, and says why', async () => {
    const { 'L-F678F1CE': _, ...others } = ENOUGH;
    await expect(check({ quotas: others })).rejects.toThrow(/^some needs are missing or unknown$/);
    expect(printed).toMatch(/VPCs per Region .*unknown: .*not authorized/);
  });

  it('says which zones lack what the deployment needs, by names that hold in this account alone', async () => {
    const tokyo = { a: 'apne1-az4', c: 'apne1-az3', d: 'apne1-az1', e: 'apne1-az2' };
    const zones = Object.fromEntries(Object.entries(tokyo).map(([letter, id]) => [`ap-northeast-1${letter}`, id]));
    await expect(check({ quotas: ENOUGH, zones }, 'ap-northeast-1')).rejects.toThrow(
      'some needs are missing or unknown: choose network.availabilityZones among ap-northeast-1a, ap-northeast-1d, ap-northeast-1e',
    );
    expect(printed).toContain('Availability zones with Fargate    has      1  needs      2  too few\n');
    expect(printed).toContain('  ap-northeast-1c (apne1-az3): has no Fargate\n');
  });

  it('says that a region has no zone to choose', async () => {
    const zones = { 'ap-northeast-1c': 'apne1-az3' };
    await expect(check({ quotas: ENOUGH, zones }, 'ap-northeast-1')).rejects.toThrow(
      'some needs are missing or unknown: choose another region: no zone of this one has Fargate',
    );
  });

  it('says that a region has fewer zones than the deployment spreads over', async () => {
    await expect(check({ quotas: ENOUGH, zones: { 'us-west-1a': 'usw1-az1' } }, 'us-west-1')).rejects.toThrow();
    expect(printed).toContain('  zone 2: the account has 1 in us-west-1\n');
  });

  it('holds zones that were chosen against those of the account', async () => {
    const chosen = mkdtempSync(join(folder, 'chosen-'));
    const { Data } = productionTemplates({
      network: { availabilityZones: ['us-east-1a', 'us-east-1e', 'us-east-1x'] },
    });
    writeFileSync(join(chosen, 'Stator-Data.template.json'), JSON.stringify(Data!.toJSON()));
    const zones = { 'us-east-1a': 'use1-az4', 'us-east-1e': 'use1-az3' };
    await expect(check({ quotas: ENOUGH, zones }, 'us-east-1', chosen)).rejects.toThrow();
    expect(printed).toContain('has      2  needs      3  too few\n');
    expect(printed).toContain('  us-east-1e (use1-az3): has no current instances with GPUs\n');
    expect(printed).toContain('  us-east-1x: no zone of the account in us-east-1\n');
  });

  it('fails where zones may not be read, and says why', async () => {
    await expect(check({ quotas: ENOUGH, zones: undefined })).rejects.toThrow(/^some needs are missing or unknown$/);
    expect(printed).toContain('Availability zones with Fargate: unknown: ec2: You are not authorized\n');
  });

  it('says what to do where no region or no credentials are known', async () => {
    for (const name of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_PROFILE', 'AWS_REGION'])
      vi.stubEnv(name, undefined);
    for (const name of ['AWS_CONFIG_FILE', 'AWS_SHARED_CREDENTIALS_FILE']) vi.stubEnv(name, join(folder, 'none'));
    vi.stubEnv('AWS_EC2_METADATA_DISABLED', 'true');
    await expect(runDeploy(['check', folder], print)).rejects.toThrow(
      /^AWS_REGION names no region .*: export AWS_REGION=/,
    );
    vi.stubEnv('AWS_REGION', 'eu-west-1');
    await expect(runDeploy(['check', folder], print)).rejects.toThrow(
      /^there are no credentials for AWS .*: aws configure/,
    );
  });

  it('names the releases of the function beyond the newest ten, but none that an alias points at', async () => {
    const [id = ''] = Object.keys(devTemplate().findResources('AWS::Lambda::Function')).filter((name) =>
      name.startsWith('Front'),
    );
    const versions = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
    const aliases = [{ FunctionVersion: '14', RoutingConfig: { AdditionalVersionWeights: { '2': 0.1 } } }];
    const deployed = { Stator: { [id]: 'Stator-Http-A1' } };
    const few = { 'Stator-Http-A1': { versions: versions.slice(0, 10), aliases } };
    expect(await check({ quotas: ENOUGH, deployed, functions: few })).not.toContain('releases');
    const text = await check({ quotas: ENOUGH, deployed, functions: { 'Stator-Http-A1': { versions, aliases } } });
    expect(text).toContain('14 releases of Stator-Http-A1 are kept; those beyond the newest 10 go by\n');
    expect(text).toContain(
      'for v in 1 3 4; do aws lambda delete-function --function-name Stator-Http-A1 --qualifier $v; done\n',
    );
  });

  it('does not fail where releases may not be read, and says so', async () => {
    const text = await check({ quotas: ENOUGH, deployed: undefined });
    expect(text).toContain('releases unknown: cloudformation: User is not authorized to perform: "cloudformation:*"\n');
  });

  it.each([
    [[], 'stator deploy takes: estimate [FOLDER], or check [FOLDER]'],
    [['check', '--all'], 'stator deploy check does not know --all'],
    [['check', '/nowhere/at/all'], 'there is no template in /nowhere/at/all: npx cdk synth --quiet writes them'],
    [['estimate', '--requests-per-day', 'many'], '--requests-per-day must be a number of at least 0'],
  ])('refuses %j', async (argv, message) => {
    await expect(runDeploy(argv, print)).rejects.toThrow(message);
  });
});

describe('stator deploy estimate', () => {
  it('counts the stacks of the last synthesis, whatever earlier ones have left in the folder', async () => {
    const out = mkdtempSync(join(folder, 'out-'));
    const stack = (templateFile: string) => ({ type: 'aws:cloudformation:stack', properties: { templateFile } });
    const template = JSON.stringify(devTemplate().toJSON());
    for (const name of ['Stator', 'Before']) writeFileSync(join(out, `${name}.template.json`), template);
    const all = await runDeploy(['estimate', out], print);
    const artifacts = { Stator: stack('Stator.template.json'), 'Stator.assets': { type: 'cdk:asset-manifest' } };
    writeFileSync(join(out, 'manifest.json'), JSON.stringify({ artifacts }));
    const last = await runDeploy(['estimate', out], print);
    const secretsIn = (text: string) => /^secrets +(\d+) /m.exec(text)?.[1];
    expect([secretsIn(all), secretsIn(last)]).toEqual(['8', '4']);
  });
});
