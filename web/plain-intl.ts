/**
 * Stand-in for `Intl` in the page. uPlot makes formatters while it loads, which takes Chromium 40 ms, and uses none of
 * them: the page writes the numbers and times of its charts itself.
 */
export const plainIntl = {
  NumberFormat: class {
    format(value: number): string {
      return String(value);
    }
  },
  DateTimeFormat: class {
    resolvedOptions(): { readonly timeZone: string } {
      return { timeZone: '' };
    }
  },
};
