import { parseFlags, UsageError } from '../config.ts';

/** Lines of `stator fleet --help`. */
export const FLEET_HELP = `Usage: stator fleet refresh [flags] GROUP...

Replaces the machines of Auto Scaling groups, for example after a new machine image, one group after the other. Workers
drain before their machine ends. A planner does not shrink a group while its refresh runs.

  --strategy S      rolling (default): launches new machines, then ends old ones
                    root-volume: replaces only the root volume, and keeps machine, address and instance store
  --image AMI       with root-volume: the image of the new root volume; the group needs a mixed instances policy
  --min-healthy N   least percentage in service (default 100; with root-volume 90)
  --max-healthy N   with rolling: largest percentage of machines meanwhile, 100 to 200 (default 110)
  --skip-matching   with rolling: leaves machines that have the group's launch template. A machine image that the template
                    names by a parameter is no difference
  --alarm NAME      fails the refresh if this CloudWatch alarm goes off; may be given ten times
  --no-wait         ends once the refreshes have started
`;

export interface RefreshArguments {
  readonly groups: readonly string[];
  readonly strategy: 'rolling' | 'root-volume';
  readonly image: string | undefined;
  readonly minHealthy: number;
  readonly maxHealthy: number;
  readonly skipsMatching: boolean;
  readonly alarms: readonly string[];
  readonly waits: boolean;
}

const GROUPS_MAX = 100;
const ALARMS_MAX = 10;

/**
 * Reads the arguments of `stator fleet refresh`.
 * @throws UsageError that names the flag, its value and what is allowed
 */
export function readRefreshArguments(argv: readonly string[]): RefreshArguments {
  const { values, positionals: groups } = parse(argv);
  const { strategy = 'rolling', image, alarm: alarms = [] } = values;
  if (strategy !== 'rolling' && strategy !== 'root-volume') {
    throw new UsageError(`--strategy ${strategy}: allowed are rolling and root-volume`);
  }
  const isRolling = strategy === 'rolling';
  if (groups.length === 0) throw new UsageError('no group is named: stator fleet refresh GROUP...');
  if (groups.length > GROUPS_MAX) throw new UsageError(`${groups.length} groups are named; at most ${GROUPS_MAX}`);
  if (alarms.length > ALARMS_MAX) throw new UsageError(`${alarms.length} times --alarm; at most ${ALARMS_MAX}`);
  if (isRolling && image !== undefined) throw new UsageError('--image is for --strategy root-volume');
  if (!isRolling && !/^ami-[0-9a-z]+$/.test(image ?? '')) {
    throw new UsageError(
      `--image ${image ?? 'is missing'}: --strategy root-volume needs an id like ami-0123456789abcdef0`,
    );
  }
  if (!isRolling && (values['max-healthy'] !== undefined || values['skip-matching'] === true)) {
    throw new UsageError('--max-healthy and --skip-matching are for --strategy rolling');
  }
  return {
    groups,
    strategy,
    image,
    minHealthy: percentage('--min-healthy', values['min-healthy'], 0, 100) ?? (isRolling ? 100 : 90),
    maxHealthy: percentage('--max-healthy', values['max-healthy'], 100, 200) ?? 110,
    skipsMatching: values['skip-matching'] ?? false,
    alarms,
    waits: !(values['no-wait'] ?? false),
  };
}

function parse(argv: readonly string[]) {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  return parseFlags({
    args: [...argv],
    allowPositionals: true,
    options: {
      strategy: text,
      image: text,
      'min-healthy': text,
      'max-healthy': text,
      'skip-matching': flag,
      'no-wait': flag,
      alarm: { type: 'string', multiple: true },
    },
  });
}

function percentage(name: string, text: string | undefined, least: number, most: number): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text.trim() !== '' && Number.isInteger(value) && value >= least && value <= most) return value;
  throw new UsageError(`${name} ${text}: allowed are whole numbers from ${least} to ${most}`);
}
