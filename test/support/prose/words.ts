/** A wording that the style page of CONTRIBUTING refuses, and the advice that the linter prints. */
interface RefusedWording {
  readonly pattern: RegExp;
  readonly advice: string;
}

/** Patterns match across the end of a line, so a blank is `\s+`. */
export const REFUSED_WORDINGS: readonly RefusedWording[] = [
  { pattern: /\bnobody\b/gi, advice: 'name who: "no client", "no process"' },
  { pattern: /\bwho(?:so)?ever\b/gi, advice: '"a client that ...", "the process that ..."' },
  { pattern: /\bsomebody\b/gi, advice: 'name who; "someone" only for a person' },
  { pattern: /\bso\s+(?:long|often|many)\b(?!\s+as\b)/gi, advice: '"for that long", "how often", "that many"' },
  { pattern: /\b(?:is|are)\s+told\b/gi, advice: 'name who tells: "the frontend tells ..."' },
  { pattern: /\b(?:is|are|was|were)\s+to\s+(?:be|have)\b/gi, advice: '"must", "should", or the plain verb' },
  { pattern: /(?<!\bthere\s+)\b(?:is|are)\s+none\b/gi, advice: '"is not a ...", "is not one"' },
  { pattern: /\b(?:matters?|knows?|goes|gets|takes|costs?)\s+(?:not|none)\b/gi, advice: '"does not ..."' },
  { pattern: /\bfor\s+no\s+one\b/gi, advice: 'a double negative: say what is saved' },
  { pattern: /(?<=\bbut\s+for\s+)(?:its?|the|those|a|an)\b/gi, advice: '"except ..."' },
];

/** The openings of a docstring that leave its subject out. */
export const REFUSED_OPENING = /^(?:Of|The same,|What)\s/;
