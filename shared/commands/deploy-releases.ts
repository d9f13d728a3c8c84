import { isRecord } from '../records/index.ts';
import { type Fields, fieldsOf, listOf } from './aws-answers.ts';
import { type Account, textsOf } from './deploy-account.ts';
import { propertiesOf } from './deploy-templates.ts';

/** A stack that `cdk synth` has written. */
export interface SynthesizedStack {
  /** Name under which it is deployed. */
  readonly name: string;
  readonly template: unknown;
}

/** Releases of a function that an account keeps. */
export interface Releases {
  readonly functionName: string;
  readonly kept: number;
  /** Versions beyond the newest ones, oldest first, without those that an alias points at. */
  readonly old: readonly string[];
}

/** Releases to keep: enough to go back to. Each holds its code, and an account's code is limited. */
export const RELEASES_KEPT = 10;
const PAGES_MAX = 100;

/** Finds the releases of functions with an alias. A stack that is not deployed yet has none. */
export async function findReleases(
  stacks: readonly SynthesizedStack[],
  account: Account,
): Promise<readonly Releases[]> {
  const found = stacks.flatMap(({ name, template }) =>
    propertiesOf([template], 'AWS::Lambda::Alias').map((alias) => releasesOf(name, functionIdOf(alias), account)),
  );
  return (await Promise.all(found)).filter((releases) => releases !== undefined);
}

/** Returns the logical id in `FunctionName: { Ref }` of an alias. */
function functionIdOf({ FunctionName }: Fields): string {
  return String(fieldsOf(FunctionName).Ref);
}

async function releasesOf(stack: string, logicalId: string, account: Account): Promise<Releases | undefined> {
  const functionName = await physicalIdOf(stack, logicalId, account);
  if (functionName === undefined) return undefined;
  const path = `/2015-03-31/functions/${encodeURIComponent(functionName)}`;
  const [versions, aliases] = await Promise.all([
    pagesOf(account, `${path}/versions`, 'Versions'),
    pagesOf(account, `${path}/aliases`, 'Aliases'),
  ]);
  const used = new Set(aliases.flatMap(versionsOf));
  const newestFirst = versions
    .map(({ Version }) => Number(Version))
    .filter(Number.isInteger) // the other one is $LATEST, which is not a release
    .sort((one, other) => other - one);
  const old = newestFirst.slice(RELEASES_KEPT).map(String);
  return { functionName, kept: newestFirst.length, old: old.filter((version) => !used.has(version)).reverse() };
}

/** Returns the name of a resource in the account; undefined while it is not deployed. */
async function physicalIdOf(stack: string, logicalId: string, account: Account): Promise<string | undefined> {
  try {
    const query = { Action: 'DescribeStackResource', Version: '2010-05-15', StackName: stack };
    const answer = await account.get('cloudformation', '/', { ...query, LogicalResourceId: logicalId });
    return textsOf(answer, 'PhysicalResourceId')[0];
  } catch (thrown) {
    if (thrown instanceof Error && thrown.message.includes('does not exist')) return undefined;
    throw thrown;
  }
}

/** Returns all entries of a list that Lambda gives in pages. */
async function pagesOf(account: Account, path: string, field: string): Promise<readonly Fields[]> {
  const entries: Fields[] = [];
  let marker: string | undefined;
  for (let page = 0; page < PAGES_MAX; page++) {
    const answer: unknown = JSON.parse(
      await account.get('lambda', path, marker === undefined ? {} : { Marker: marker }),
    );
    if (!isRecord(answer)) throw new Error(`lambda: ${path} is not a list`);
    entries.push(...listOf(answer[field]).filter(isRecord));
    if (typeof answer.NextMarker !== 'string' || answer.NextMarker === '') return entries;
    marker = answer.NextMarker;
  }
  throw new Error(`lambda: ${path} has more than ${PAGES_MAX} pages`);
}

/** Returns the versions that an alias sends requests to: one, and another during a release. */
function versionsOf({ FunctionVersion, RoutingConfig }: Fields): readonly string[] {
  return [String(FunctionVersion), ...Object.keys(fieldsOf(fieldsOf(RoutingConfig).AdditionalVersionWeights))];
}
