/** An argument taken apart. */
export interface Word {
  /** What stands before `=`. */
  readonly typed: string;
  /** What stands behind it. */
  readonly text: string | undefined;
}

export function splitWord(argument: string): Word {
  const equals = argument.indexOf('=');
  if (equals < 0) return { typed: argument, text: undefined };
  return { typed: argument.slice(0, equals), text: argument.slice(equals + 1) };
}

/** A negative number is none. */
export function isFlag(argument: string): boolean {
  return /^-[-a-zA-Z]/.test(argument);
}

/** The arguments after `at` up to the next flag, as Python's argument parser tells them: no flag has a blank in its name. */
export function valuesAfter(argv: readonly string[], at: number): readonly string[] {
  const rest = argv.slice(at + 1);
  const end = rest.findIndex(
    (argument) => argument === '--' || (isFlag(argument) && !splitWord(argument).typed.includes(' ')),
  );
  return end < 0 ? rest : rest.slice(0, end);
}

/** `--max_len` is `--max-len`, and `--a.b_c` the flag `--a`: what engines read alike. */
export function flagName(typed: string): string {
  const name = typed.replace(/\..*$/, '');
  return name.startsWith('--') ? name.replaceAll('_', '-') : name;
}

const SECRET_FLAG = /^--(.*-)?(api-key|token|password|secret)$/;

/** Arguments as they may be shown: values of keys and tokens are hidden. */
export function hideSecrets(args: readonly string[]): readonly string[] {
  let isSecret = false;
  return args.map((argument) => {
    if (!isFlag(argument)) return isSecret ? '***' : argument;
    const { typed, text } = splitWord(argument);
    isSecret = SECRET_FLAG.test(flagName(typed));
    return isSecret && text !== undefined ? `${typed}=***` : argument;
  });
}
