/** Whether something of a deployment works with Stator: as it is, in another way, or not. */
export type Verdict = 'ok' | 'differs' | 'fails';

/** One thing that the doctor looked at. */
export interface Finding {
  readonly verdict: Verdict;
  /** Thing that was looked at: a flag, a variable, a model, a worker, an address. */
  readonly about: string;
  /** Description of what the doctor found, in one line. */
  readonly says: string;
  /** Advice to the operator. Absent if no change is needed. */
  readonly remedy?: string;
}

/** Everything that the doctor found, and how to start. */
export interface Diagnosis {
  readonly findings: readonly Finding[];
  /** Command line that starts Stator in front of the workers; undefined if something first has to change. */
  readonly start: string | undefined;
}

const WIDTH = 8;

/** Returns a diagnosis as text, with one line for each finding. */
export function renderDiagnosis({ findings, start }: Diagnosis): string {
  const lines = findings.map(({ verdict, about, says, remedy }) => {
    const end = remedy === undefined ? '' : ` -> ${remedy}`;
    return `${verdict.padEnd(WIDTH)} ${about}: ${says}${end}\n`;
  });
  const count = (verdict: Verdict): number => findings.filter((finding) => finding.verdict === verdict).length;
  const sum = `${count('ok')} ok, ${count('differs')} differ, ${count('fails')} will not work\n`;
  return `${lines.join('')}\n${sum}${start === undefined ? '' : `Start: ${start}\n`}`;
}

/** Returns a diagnosis as JSON text. */
export function renderDiagnosisJson(diagnosis: Diagnosis): string {
  return `${JSON.stringify(diagnosis, undefined, 2)}\n`;
}
