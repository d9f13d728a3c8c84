import { accept, oneText, type Parsed, refuse, type Surroundings, type ValueType } from './value-type.ts';

/** What must lie at a path. */
export interface PathLimits {
  readonly allowed?: string;
  /** The process writes it: it need not exist. */
  readonly written?: true;
  /** `$NAME` and `${NAME}` stand for variables. */
  readonly expandsVariables?: true;
  /** Exact size that the file must have. */
  readonly sizeBytes?: number;
  /** Appended to the message when nothing lies there. */
  readonly hint?: string;
}

type PathKind = 'file' | 'folder' | 'file or folder';

/** `~` and `~/...` as the home folder. */
export function expandHome(text: string, around: Surroundings): string {
  return text === '~' || text.startsWith('~/') ? around.homeDir + text.slice(1) : text;
}

function expandVariables(text: string, around: Surroundings): string {
  return text.replace(/\$(?:\{(\w+)\}|(\w+))/g, (whole, braced, bare) => around.env[String(braced ?? bare)] ?? whole);
}

function checkPath(path: string, wanted: PathKind, limits: PathLimits, around: Surroundings): Parsed<string> {
  const found = around.kindOf(path);
  const hint = limits.hint === undefined ? '' : `; ${limits.hint}`;
  if (found === 'none') return limits.written === true ? accept(path) : refuse(`no such ${wanted}${hint}`);
  if (wanted !== 'file or folder' && found !== wanted) return refuse(`is a ${found}, not a ${wanted}`);
  if (limits.sizeBytes !== undefined && around.sizeBytes(path) !== limits.sizeBytes) {
    return refuse(`has ${around.sizeBytes(path)} bytes, not ${limits.sizeBytes}`);
  }
  return accept(path);
}

/** The path of a file or folder that exists, or that the process will write. */
export function pathType(wanted: PathKind, limits: PathLimits): ValueType<string> {
  return oneText({
    name: wanted,
    allowed: limits.allowed ?? (limits.written === true ? '' : `an existing ${wanted}`),
    parse: (text, around) => {
      if (text === '') return refuse('empty');
      const home = expandHome(text, around);
      return checkPath(limits.expandsVariables === true ? expandVariables(home, around) : home, wanted, limits, around);
    },
  });
}
