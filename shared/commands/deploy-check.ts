import { reasonOf } from '../errors/index.ts';
import { type Account, openAccount } from './deploy-account.ts';
import { checkQuotas, isShort, type QuotaFinding, quotasNeeded } from './deploy-needs.ts';
import { findOfferings, type OfferingFinding } from './deploy-offerings.ts';
import { findReleases, RELEASES_KEPT, type Releases, type SynthesizedStack } from './deploy-releases.ts';
import { checkZones, type ZoneFindings } from './deploy-zones.ts';

interface Verdict {
  /** Findings, one per line. */
  readonly text: string;
  /** Why the deployment may not succeed; undefined when everything is there. */
  readonly problem: string | undefined;
}

/** Result of one check. */
interface Finding {
  readonly lines: readonly string[];
  /** Remedy; empty if the quota could not be read. */
  readonly problem?: string;
}

/** Checks whether the account of the usual credentials has what a deployment needs. */
export async function checkDeployment(stacks: readonly SynthesizedStack[]): Promise<Verdict> {
  const templates = stacks.map(({ template }) => template);
  const account = await openAccount();
  const findings = await Promise.all([
    checkQuotas(quotasNeeded(templates), account.quotaOf).then(findQuotas),
    findZones(templates, account),
    findOfferings(templates, account).then(describeOfferings, (thrown: unknown): Finding => {
      return { lines: [`zones that have the machines unknown: ${reasonOf(thrown)}`], problem: '' };
    }),
    findReleases(stacks, account).then(describeReleases, (thrown: unknown): Finding => {
      return { lines: [`releases unknown: ${reasonOf(thrown)}`] }; // they keep no deployment from succeeding
    }),
  ]).finally(() => account.close());
  const problems = findings.flatMap(({ problem }) => problem ?? []);
  const hints = [...new Set(problems.filter((hint) => hint !== ''))];
  return {
    text: findings.flatMap(({ lines }) => lines.map((line) => `${line}\n`)).join(''),
    problem:
      problems.length === 0
        ? undefined
        : `some needs are missing or unknown${hints.length === 0 ? '' : `: ${hints.join('; ')}`}`,
  };
}

function findQuotas(findings: readonly QuotaFinding[]): Finding {
  const lines = findings.map(describeQuota);
  if (findings.some(isShort))
    return { lines, problem: 'ask for more in the console of Service Quotas, in the region of the deployment' };
  return findings.some(({ has }) => has === undefined) ? { lines, problem: '' } : { lines };
}

function describeQuota(finding: QuotaFinding): string {
  const { name, service, code, needed, because, has, reason } = finding;
  const verdict = has === undefined ? `unknown: ${reason}` : isShort(finding) ? 'too small' : 'enough';
  const line = describeNeed(name, has, needed, verdict);
  return verdict === 'enough' ? line : `${line} (${because}; ${service} ${code})`;
}

function describeNeed(name: string, has: number | undefined, needed: number, verdict: string): string {
  return `${name.padEnd(34)} has ${String(has ?? '?').padStart(6)}  needs ${String(needed).padStart(6)}  ${verdict}`;
}

const ZONES = 'Availability zones with Fargate';

async function findZones(templates: readonly unknown[], account: Account): Promise<Finding> {
  try {
    const findings = await checkZones(templates, account);
    return findings === undefined ? { lines: [] } : describeZones(findings);
  } catch (thrown) {
    return { lines: [`${ZONES}: unknown: ${reasonOf(thrown)}`], problem: '' };
  }
}

function describeZones({ has, needed, problems, good }: ZoneFindings): Finding {
  const isEnough = has >= needed;
  const lines = [
    describeNeed(ZONES, has, needed, isEnough ? 'enough' : 'too few'),
    ...problems.map(({ zone, reason }) => `  ${zone}: ${reason}`),
  ];
  if (isEnough) return { lines };
  if (good.length === 0) return { lines, problem: 'choose another region: no zone of this one has Fargate' };
  return { lines, problem: `choose network.availabilityZones among ${good.join(', ')}` };
}

function describeOfferings(findings: readonly OfferingFinding[]): Finding {
  const lines = findings.map(({ name, types, zones, good }) => {
    const places = `${good.length} of ${zones.length} zones`;
    const lacking = zones.filter((zone) => !good.includes(zone));
    const lack = lacking.length === 0 ? '' : `; not in ${lacking.join(', ')}`;
    return `machines of ${name}: ${types.join(', ')} in ${places}${lack}`;
  });
  const none = findings.filter(({ good }) => good.length === 0);
  if (none.length === 0) return { lines };
  const places = [...new Set(none.flatMap(({ elsewhere }) => elsewhere))].sort();
  const hint =
    places.length === 0 ? 'choose other types, or another region' : `choose zones among ${places.join(', ')}`;
  return { lines, problem: `${none.map(({ name }) => name).join(', ')} can start no machine: ${hint}` };
}

function describeReleases(all: readonly Releases[]): Finding {
  const lines = all.flatMap(({ functionName, kept, old }) => {
    if (old.length === 0) return [];
    const each = `aws lambda delete-function --function-name ${functionName} --qualifier $v`;
    return [
      `${kept} releases of ${functionName} are kept; those beyond the newest ${RELEASES_KEPT} go by`,
      `  for v in ${old.join(' ')}; do ${each}; done`,
    ];
  });
  return { lines };
}
