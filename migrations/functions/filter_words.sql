-- Reading a filter: its words, and the messages about errors in it. The grammar is in docs/audiences.md.

-- The words of a filter and their positions, counted in characters from 1: names and keywords, numbers, quoted texts
-- with their quotes, and signs. An empty word follows the last one, and marks the end.
--
-- The pattern has a branch for every character, so the matches follow each other without gaps.
create or replace function pushq.filter_words(filter text, out words text[], out positions int[])
language plpgsql stable as $$
begin
  select array_agg(m.word order by m.n), array_agg(m.place order by m.n)
  into words, positions
  from (
    select part[1] as word, n,
           (1 + sum(length(part[1])) over (order by n) - length(part[1]))::int as place
    from regexp_matches(
           filter,
           -- Space, quoted texts, words, numbers, signs; then any other character.
           E'([\\s\\u00a0]+|''(?:[^'']|'''')*''|"(?:[^"]|"")*"|[A-Za-z_][A-Za-z0-9_]*|'
             '-?[0-9]+(?:[.][0-9]+)*|[<>!=]=|<>|.)',
           'g') with ordinality s(part, n)) m
  where m.word !~ E'^[\\s\\u00a0]';
  words := words || ''::text;
  positions := positions || length(filter) + 1;
end $$;

-- Refuses a filter, with the position of the error in it.
create or replace function pushq.refuse_filter(place int, problem text) returns void
language plpgsql stable as $$
begin
  raise exception using errcode = 'PQ400', message = format('the filter is wrong at position %s: %s', place, problem),
    hint = 'docs/audiences.md has the grammar';
end $$;

-- A word of a filter, as an error message shows it.
create or replace function pushq.shown_word(word text) returns text
language plpgsql stable as $$
begin
  return case when word = '' then 'the end' when length(word) > 40 then '“' || pushq.shown(word, 40) || '…”'
              else '“' || word || '”' end;
end $$;

-- The number of characters to insert, remove, replace or swap with the next one to change one word into the other
-- (Damerau and Levenshtein).
create or replace function pushq.word_distance(a text, b text) returns int
language plpgsql stable as $$
declare
  higher int[];                                           -- the row above the one above
  above  int[] := array(select generate_series(0, length(b)));
  row    int[];
begin
  for i in 1 .. length(a) loop
    row := array[i];
    for j in 1 .. length(b) loop
      row[j + 1] := least(row[j] + 1, above[j + 1] + 1,
                          above[j] + case when substr(a, i, 1) = substr(b, j, 1) then 0 else 1 end);
      if i > 1 and j > 1 and substr(a, i - 1, 2) = reverse(substr(b, j - 1, 2)) then
        row[j + 1] := least(row[j + 1], higher[j - 1] + 1);
      end if;
    end loop;
    higher := above;
    above := row;
  end loop;
  return above[length(b) + 1];
end $$;

-- The known word that was probably meant, as the end of a message: `; did you mean “locale”?`. Empty if none is close.
create or replace function pushq.suggestion(word text, known text[]) returns text
language plpgsql stable as $$
declare
  nearest text;
begin
  if word is null or length(word) > 30 then
    return '';
  end if;
  select k into nearest
  from unnest(known) k
  where pushq.word_distance(lower(word collate "C"), k) <= greatest(length(word) / 3, 1)
  order by pushq.word_distance(lower(word collate "C"), k), k
  limit 1;
  return coalesce('; did you mean “' || nearest || '”?', '');
end $$;
