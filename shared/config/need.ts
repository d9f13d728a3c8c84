import type { Process } from './row.ts';
import { nameOf, type SettingName, TABLE, type ValuesBySetting } from './table.ts';
import type { ConfigView } from './view.ts';

/** One condition without which a setting has no effect. */
export interface Need {
  /** How a user fulfils it. */
  readonly says: string;
  /** Settings that the condition depends on. If a process reads none of them, it counts as fulfilled. */
  readonly reads: readonly SettingName[];
  readonly holds: (view: ConfigView) => boolean;
  /** Processes that the condition applies to. @default all that read the setting */
  readonly only?: readonly Process[];
}

type Value<K extends SettingName> = NonNullable<ValuesBySetting[K]>;

/** Requires that the setting has one of these values. */
export function is<const K extends SettingName>(setting: K, ...values: readonly Value<K>[]): Need {
  return {
    says: `${nameOf(setting)} ${values.join(' or ')}`,
    reads: [setting],
    holds: ({ values: all }) => values.some((value) => value === all[setting]),
  };
}

/** Requires that the setting has any value but this one. */
export function isNot<const K extends SettingName>(setting: K, value: Value<K>): Need {
  return {
    says: `${nameOf(setting)} other than ${value}`,
    reads: [setting],
    holds: ({ values }) => values[setting] !== value,
  };
}

/** Requires that the setting is given, or on. */
export function on(setting: SettingName): Need {
  return {
    says: nameOf(setting),
    reads: [setting],
    holds: ({ values }) => values[setting] !== undefined && values[setting] !== null && values[setting] !== false,
  };
}

/** Requires that the switch is off, or the setting not given. */
export function off(setting: SettingName): Need {
  const name = nameOf(setting);
  const isSwitch = TABLE.get(setting)?.type.arity === 'switch' && name.startsWith('--');
  return {
    says: isSwitch ? `--no-${name.slice(2)}` : `no ${name}`,
    reads: [setting],
    holds: ({ values }) => values[setting] === undefined || values[setting] === null || values[setting] === false,
  };
}

/** Requires any one of the conditions. */
export function or(...needs: readonly [Need, ...Need[]]): Need {
  return {
    says: needs.map(({ says }) => says).join(' or '),
    reads: needs.flatMap(({ reads }) => reads),
    holds: (view) => needs.some((need) => isRead(need, view) && need.holds(view)),
  };
}

/** Restricts a condition to some of the processes that read the setting. */
export function only(processes: readonly Process[], need: Need): Need {
  return { ...need, only: processes };
}

/** Whether a condition applies to the process and is not met. */
export function isUnmet(need: Need, view: ConfigView): boolean {
  if (need.only?.includes(view.process) === false || !isRead(need, view)) return false;
  return !need.holds(view);
}

function isRead({ reads }: Need, { values }: ConfigView): boolean {
  return reads.some((setting) => setting in values);
}
