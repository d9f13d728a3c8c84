import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { UsageError } from './config.ts';
import { type Estimate, estimateDeployment, LEFT_OUT, type PricedPart } from './deploy-prices.ts';

/** Lines of `stator deploy --help`. */
export const DEPLOY_HELP = `Usage: stator deploy estimate [FOLDER] [--requests-per-day N] [--seconds-per-request S]

What a deployment to AWS costs a month, idle and under a load, by list prices of us-east-1. It reads the templates that
npx cdk synth has written to FOLDER (cdk.out), and asks nobody.

  --requests-per-day N       0 where it is not said
  --seconds-per-request S    how long an answer takes on average; 10 where it is not said
`;

const SECONDS_PER_REQUEST = 10;

/**
 * Runs `stator deploy`; resolves with what it prints.
 * @throws UsageError for a mistake in its arguments, Error with one line when there is no template
 */
export async function runDeploy([verb, ...rest]: readonly string[]): Promise<string> {
  if (verb !== 'estimate') throw new UsageError('stator deploy takes: estimate [FOLDER]');
  let folder: string | undefined;
  const load = { requestsPerDay: 0, secondsPerRequest: SECONDS_PER_REQUEST };
  for (let at = 0; at < rest.length; at++) {
    const argument = rest[at]!;
    if (argument === '--requests-per-day') load.requestsPerDay = readNumber(argument, rest[++at]);
    else if (argument === '--seconds-per-request') load.secondsPerRequest = readNumber(argument, rest[++at]);
    else if (argument.startsWith('-') || folder !== undefined) {
      throw new UsageError(`stator deploy estimate does not know ${argument}: stator deploy --help`);
    } else folder = argument;
  }
  return render(estimateDeployment(await readTemplates(folder ?? 'cdk.out'), load));
}

function readNumber(flag: string, text: string | undefined): number {
  const value = Number(text ?? '');
  if (text === undefined || text === '' || !Number.isFinite(value) || value < 0) {
    throw new UsageError(`${flag} must be a number of at least 0, not ${JSON.stringify(text ?? '')}`);
  }
  return value;
}

async function readTemplates(folder: string): Promise<readonly unknown[]> {
  const files = await readdir(folder, { recursive: true }).catch(() => []);
  const names = files.filter((name) => name.endsWith('.template.json'));
  if (names.length === 0) throw new Error(`there is no template in ${folder}: npx cdk synth --quiet writes them`);
  return Promise.all(names.map(async (name) => JSON.parse(await readFile(join(folder, name), 'utf8')) as unknown));
}

function render({ idle, load, streamsForContainers }: Estimate): string {
  const sum = (parts: readonly PricedPart[]) => parts.reduce((total, { dollars }) => total + dollars, 0);
  const line = (name: string, count: string, dollars: number) =>
    `${name.padEnd(40)} ${count.padStart(12)} ${dollars.toFixed(2).padStart(10)}\n`;
  const lines = (parts: readonly PricedPart[]) =>
    parts.map(({ name, count, dollars }) => line(name, String(Math.round(count)), dollars)).join('');
  const streams =
    streamsForContainers === undefined
      ? ''
      : `\nFrom ${streamsForContainers.toFixed(1)} streams at a time on, day and night, two container edges with a load balancer cost less than the function.\n`;
  return `${'US$ a month, us-east-1'.padEnd(40)} ${'number'.padStart(12)} ${'US$'.padStart(10)}
${lines(idle)}${line('idle', '', sum(idle))}
${lines(load)}${line('idle and load', '', sum(idle) + sum(load))}${streams}
Not in it:
${LEFT_OUT.map((text) => `- ${text}\n`).join('')}`;
}
