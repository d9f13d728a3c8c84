/**
 * Named values as the arguments of an engine written in Python: `true` is the bare flag, `false` its `--no-` form, objects
 * are JSON, lists several values; undefined is left out. `_` in names may stand for `-`.
 */
export function argumentsOf(named: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(named).flatMap(([name, value]) => {
    const flag = name.replaceAll('_', '-');
    if (value === undefined || value === null) return [];
    if (typeof value === 'boolean') return [value ? `--${flag}` : `--no-${flag}`];
    if (Array.isArray(value)) return [`--${flag}`, ...value.map(String)];
    return [`--${flag}`, typeof value === 'object' ? JSON.stringify(value) : String(value)];
  });
}
