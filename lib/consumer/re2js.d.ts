// The part of re2js that this program uses.
declare module 're2js' {
  export class RE2JS {
    /** Throws if RE2 does not support the pattern. */
    static compile(pattern: string): RE2JS;
    /** Translates a JavaScript pattern to the syntax of RE2. */
    static translateRegExp(pattern: string): string;
    /** Number of instructions in the compiled pattern. */
    programSize(): number;
    matcher(text: string): { find(): boolean };
  }
}
