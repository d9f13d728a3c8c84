import { ENGINES } from './command-line/engine-flags.ts';
import { REFUSED_SETTINGS } from './dependencies.ts';
import { nameOf, type SettingName, TABLE } from './table.ts';
import { REFUSED_NAMES, UNBUILT } from './unbuilt.ts';

/** A name that ends a start, and the reason in the error. */
interface RefusedName {
  /** Name, usually a flag. */
  readonly name: string;
  /** Values that are refused. @default all */
  readonly values?: readonly string[];
  /** Engine with which the name is refused. @default any, and none */
  readonly engine?: string;
  readonly reason: string;
}

/**
 * Returns everything that is known and ends a start: values of settings, whole settings, and names that are not in the
 * table.
 */
function refusedNames(): readonly RefusedName[] {
  const ofValues = [...TABLE].flatMap(([setting, { type }]) => {
    const refused = Object.entries(type.refused ?? {});
    const byReason = grouped(refused.map(([value, reason]) => [reason, value] as const));
    return byReason.map(([reason, values]) => ({ name: nameOf(setting), values, reason }));
  });
  const ofSettings = Object.entries(REFUSED_SETTINGS).map(([setting, reason]) => {
    return { name: nameOf(setting as SettingName), reason }; // its keys
  });
  const ofNames = Object.entries(REFUSED_NAMES).map(([name, reason]) => ({ name, reason }));
  const ofEngines = ENGINES.flatMap(({ engine, refused }) =>
    Object.entries(refused).map(([name, reason]) => ({ name, engine, reason })),
  );
  return [...ofValues, ...ofSettings, ...ofNames, ...ofEngines];
}

/**
 * Returns the engines that take `name`, in which `*` may stand for a part. A worker that starts one of them passes it
 * on.
 */
function enginesThatTake(name: string): readonly string[] {
  const pattern = new RegExp(`^${name.replaceAll('*', '[\\w-]+')}$`);
  return ENGINES.filter(({ names }) => [...names].some((flag) => pattern.test(flag))).map(({ engine }) => engine);
}

/** Groups the second parts of pairs by the first. */
function grouped(pairs: readonly (readonly [string, string])[]): readonly (readonly [string, readonly string[]])[] {
  const heads = [...new Set(pairs.map(([head]) => head))];
  return heads.map((head) => [head, pairs.flatMap(([other, text]) => (other === head ? [text] : []))]);
}

function code(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(', ');
}

function passedOn(names: readonly string[]): string {
  const taken = names.map((name) => [enginesThatTake(name).join(', '), name] as const);
  const byEngines = grouped(taken.filter(([engines]) => engines !== ''));
  return byEngines.map(([engines, flags]) => `${code(flags)}: ${engines}`).join('; ') || '-';
}

function unbuiltRows(): string {
  return UNBUILT.map(({ about, usedBy, names: list, instead }) => {
    const names = list.split(' ');
    return `| ${[about, code(names), usedBy.join(', '), passedOn(names), instead ?? '-'].join(' | ')} |`;
  }).join('\n');
}

function refusedRows(): string {
  const rows = refusedNames().map(({ name, values, engine, reason }) => {
    const where = engine === undefined ? '' : ` with \`--engine ${engine}\``;
    return `| \`${name}\`${where} | ${values === undefined ? 'any' : code(values)} | ${reason} |`;
  });
  return rows.join('\n');
}

/** Returns the end of `docs/configuration.md`: names that do nothing, and refused names and values. */
export function renderUnbuilt(): string {
  return `## Not built

A process accepts these names with a warning, and does nothing with them. There is one exception: if a worker starts an
engine that the column "passed on" names, it passes the name on unchanged, without a warning.

| what | names | accepted by | passed on | use instead |
|---|---|---|---|---|
${unbuiltRows()}

These end the start, with this reason:

| name | values | reason |
|---|---|---|
${refusedRows()}
`;
}
