/** Methods that Node 20 has and the ES2023 types lack. */
interface WellFormedText {
  isWellFormed(): boolean;
  toWellFormed(): string;
}

/** `text` with every lone surrogate replaced by U+FFFD. */
export function toWellFormed(text: string): string {
  const checked = text as unknown as WellFormedText;
  return checked.isWellFormed() ? text : checked.toWellFormed();
}
