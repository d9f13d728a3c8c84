import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { UsageError } from './config.ts';
import { checkDeployment } from './deploy-check.ts';
import { RELEASES_KEPT, type SynthesizedStack } from './deploy-releases.ts';
import { estimateDeployment } from './estimate/estimate.ts';
import { renderEstimate } from './estimate/text.ts';

/** Lines of `stator deploy --help`. */
export const DEPLOY_HELP = `Usage: stator deploy estimate [FOLDER] [--requests-per-day N] [--seconds-per-request S] [--spot-discount P]
       stator deploy check [FOLDER]

Both commands read the templates that npx cdk synth has written to FOLDER (default: cdk.out).

estimate prints what a deployment to AWS costs a month when idle, under a load, and at most. It uses the list prices of
us-east-1 and sends no request.

  --requests-per-day N       requests of the load (default: 0)
  --seconds-per-request S    mean duration of an answer (default: 10)
  --spot-discount P          percent by which spot machines cost less than others (default: 60)

check reports whether the account has the quotas and zones that the deployment needs, in the region of AWS_REGION and
with the usual credentials. They must allow servicequotas:GetServiceQuota and ec2:DescribeAvailabilityZones, and with
fleets on EC2 ec2:DescribeInstanceTypeOfferings. The exit code is 1 if something is missing or cannot be read. After a
deployment it also names the releases of the function beyond the newest ${RELEASES_KEPT}. For this the credentials must
allow lambda:ListVersionsByFunction, lambda:ListAliases and cloudformation:DescribeStackResource. The command changes
nothing.
`;

const SECONDS_PER_REQUEST = 10;
const SPOT_DISCOUNT_PERCENT = 60;
/** Folder that `cdk synth` writes to. */
const FOLDER = 'cdk.out';

interface ManifestStack {
  readonly templateFile?: string;
  /** @default the name of its entry */
  readonly stackName?: string;
}

/** Fields that the command reads in the list of artifacts of `cdk synth`. */
interface Manifest {
  readonly artifacts?: Readonly<Record<string, { readonly type: string; readonly properties?: ManifestStack }>>;
}

/**
 * Runs `stator deploy`; resolves with what it prints.
 * @param print receives the findings, even if the command then fails
 * @throws UsageError for a mistake in its arguments, Error in one line when there is no template or a quota is short
 */
export async function runDeploy([verb, ...rest]: readonly string[], print: (text: string) => void): Promise<string> {
  if (verb === 'estimate') return estimate(rest);
  if (verb === 'check') return check(rest, print);
  throw new UsageError('stator deploy takes: estimate [FOLDER], or check [FOLDER]');
}

async function estimate(argv: readonly string[]): Promise<string> {
  let folder: string | undefined;
  const load = { requestsPerDay: 0, secondsPerRequest: SECONDS_PER_REQUEST };
  let spotDiscount = SPOT_DISCOUNT_PERCENT;
  for (let at = 0; at < argv.length; at++) {
    const argument = argv[at]!;
    if (argument === '--requests-per-day') load.requestsPerDay = readNumber(argument, argv[++at]);
    else if (argument === '--seconds-per-request') load.secondsPerRequest = readNumber(argument, argv[++at]);
    else if (argument === '--spot-discount') spotDiscount = readPercent(argument, argv[++at]);
    else folder = readFolder('estimate', argument, folder);
  }
  return renderEstimate(estimateDeployment(await readStacks(folder ?? FOLDER), { ...load, spotDiscount }));
}

async function check(argv: readonly string[], print: (text: string) => void): Promise<string> {
  const folder = argv.reduce<string | undefined>(
    (before, argument) => readFolder('check', argument, before),
    undefined,
  );
  const { text, problem } = await checkDeployment(await readStacks(folder ?? FOLDER));
  if (problem === undefined) return text;
  print(text);
  throw new Error(problem);
}

function readFolder(verb: string, argument: string, before: string | undefined): string {
  if (!argument.startsWith('-') && before === undefined) return argument;
  throw new UsageError(`stator deploy ${verb} does not know ${argument}: stator deploy --help`);
}

function readNumber(flag: string, text: string | undefined): number {
  const value = Number(text ?? '');
  if (text === undefined || text === '' || !Number.isFinite(value) || value < 0) {
    throw new UsageError(`${flag} must be a number of at least 0, not ${JSON.stringify(text ?? '')}`);
  }
  return value;
}

function readPercent(flag: string, text: string | undefined): number {
  const value = readNumber(flag, text);
  if (value <= 100) return value;
  throw new UsageError(`${flag} must be a number from 0 to 100, not ${JSON.stringify(text)}`);
}

async function readStacks(folder: string): Promise<readonly SynthesizedStack[]> {
  const files = (await stacksOf(folder)) ?? (await templatesIn(folder));
  if (files.length === 0) throw new Error(`there is no template in ${folder}: npx cdk synth --quiet writes them`);
  return Promise.all(
    files.map(async ([name, file]) => ({ name, template: JSON.parse(await readFile(join(folder, file), 'utf8')) })),
  );
}

type StackFile = readonly [stackName: string, file: string];

const ENDING = '.template.json';

async function templatesIn(folder: string): Promise<readonly StackFile[]> {
  const files = await readdir(folder).catch(() => []);
  return files.filter((file) => file.endsWith(ENDING)).map((file) => [file.slice(0, -ENDING.length), file]);
}

/**
 * Returns the stacks of the last synthesis, or undefined if it has written no manifest. A synthesis leaves the files of
 * earlier ones in the folder.
 */
async function stacksOf(folder: string): Promise<readonly StackFile[] | undefined> {
  const text = await readFile(join(folder, 'manifest.json'), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  const { artifacts = {} } = JSON.parse(text) as Manifest;
  return Object.entries(artifacts).flatMap(([id, { type, properties: { templateFile, stackName = id } = {} }]) =>
    type === 'aws:cloudformation:stack' && templateFile !== undefined ? [[stackName, templateFile]] : [],
  );
}
