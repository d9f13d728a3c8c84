/** Parts of an argument. */
export interface Word {
  /** Text before `=`. */
  readonly typed: string;
  /** Text after `=`. */
  readonly text: string | undefined;
}

export function splitWord(argument: string): Word {
  const equals = argument.indexOf('=');
  if (equals < 0) return { typed: argument, text: undefined };
  return { typed: argument.slice(0, equals), text: argument.slice(equals + 1) };
}

/** Whether an argument is a flag. A negative number is not a flag. */
export function isFlag(argument: string): boolean {
  return /^-[-a-zA-Z]/.test(argument);
}

/**
 * Returns the arguments after `at` up to the next flag, as Python's argument parser separates them: the name of a flag
 * has no blank.
 */
export function valuesAfter(argv: readonly string[], at: number): readonly string[] {
  const rest = argv.slice(at + 1);
  const end = rest.findIndex(
    (argument) => argument === '--' || (isFlag(argument) && !splitWord(argument).typed.includes(' ')),
  );
  return end < 0 ? rest : rest.slice(0, end);
}

/** Turns `--max_len` into `--max-len`, and `--a.b_c` into the flag `--a`: engines read them alike. */
export function flagName(typed: string): string {
  const name = typed.replace(/\..*$/, '');
  return name.startsWith('--') ? name.replaceAll('_', '-') : name;
}

const SECRET_FLAG = /^--(.*-)?(api-key|token|password|secret)$/;

/** Returns arguments as they may be shown: values of keys and tokens are hidden. */
export function hideSecrets(args: readonly string[]): readonly string[] {
  let isSecret = false;
  return args.map((argument) => {
    if (!isFlag(argument)) return isSecret ? '***' : argument;
    const { typed, text } = splitWord(argument);
    isSecret = SECRET_FLAG.test(flagName(typed));
    return isSecret && text !== undefined ? `${typed}=***` : argument;
  });
}
