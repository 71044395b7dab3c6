import QueueCore

/// The SQL that creates or updates a router: a database in which producers call the usual functions, and PL/Proxy calls
/// them in the database that holds the queue's tenant.
///
/// The caller is the same in both databases: the router connects under the name of the caller, whom PostgreSQL has
/// authenticated at the router and authenticates again at the database. So a router cannot give a tenant more than its
/// login has. Only `pushq_router.place` builds the connection string, and producers can neither call it nor change what
/// it reads. The connection string is passed with `connect`: PL/Proxy's `cluster` would add the caller's name without
/// quotes, and a name with a space could add further parameters.
package struct RouterScript {
    private let parts: [(part: RouterPart, connection: String)]
    private let isComplete: Bool
    private let doubled: Set<String>
    private let age: Duration

    /// - Parameters:
    ///   - parts: the databases, each with the router's connection to it: libpq's parameters without a user.
    ///   - isComplete: whether these are all databases. If not, the router keeps what it knows about the others.
    ///   - doubled: tenants that are in several databases. The router keeps what it knows about them.
    ///   - age: how long ago the first database was asked. Where a tenant has moved to since then, the router knows
    ///     better, if it was told.
    package init(
        _ parts: [(part: RouterPart, connection: String)], isComplete: Bool, doubled: Set<String> = [], age: Duration
    ) {
        self.parts = parts
        self.isComplete = isComplete
        self.doubled = doubled
        self.age = age
    }

    package var text: String {
        [Self.start, Self.tables, Self.place, functions, places, "commit;"].joined(separator: "\n\n")
    }

    // MARK: What does not change

    private static let start = """
        -- Made by pushq-admin router: for a database of its own, as a superuser. It may be run again at any time.
        begin;
        -- Calls that begin later would wait behind a lock for which this waits.
        set local lock_timeout = '2s';
        set local client_min_messages = warning;
        set local standard_conforming_strings = on;
        do $router$
        begin
          if to_regclass('pushq.tenant') is not null then
            raise exception 'this is a database of pushq, and no router' using hint = 'make one: createdb router';
          elsif getdatabaseencoding() <> 'UTF8' then
            raise exception 'a router has the encoding UTF8, and not %', getdatabaseencoding()
              using hint = 'make it with: createdb --template template0 --encoding UTF8 --locale C router';
          end if;
          -- One such script at a time. Only superusers may lock a catalog so.
          lock table pg_catalog.pg_extension in share row exclusive mode;
          if to_regrole('pushq_producer') is null then
            create role pushq_producer;
          end if;
          if to_regrole('pushq_router') is null then
            create role pushq_router;
          end if;
        end $router$;
        create extension if not exists plproxy;
        """

    private static let tables = """
        -- pushq has what producers call, pushq_router what they do not see.
        create schema if not exists pushq authorization pushq_router;
        create schema if not exists pushq_router authorization pushq_router;
        grant usage on schema pushq to pushq_producer;
        create table if not exists pushq_router.database (number int primary key, connection text not null);
        create table if not exists pushq_router.place (
          login    text not null,
          tenant   text not null,
          database int  not null references pushq_router.database,
          told_at  timestamptz,  -- by the command that moved the tenant
          primary key (login, tenant)
        );
        create table if not exists pushq_router.made (digest text not null);
        -- To alter a table is to wait for all calls that are under way, even if nothing changes.
        do $router$
        declare
          thing record;
        begin
          for thing in
            select c.relname as name
            from pg_class c
            where c.relnamespace = 'pushq_router'::regnamespace and c.relname in ('database', 'place', 'made')
              and c.relowner <> 'pushq_router'::regrole
          loop
            execute format('alter table pushq_router.%I owner to pushq_router', thing.name);
          end loop;
          -- An earlier version made the table without it.
          if not exists (
            select from pg_attribute a where a.attrelid = 'pushq_router.place'::regclass and a.attname = 'told_at') then
            alter table pushq_router.place add told_at timestamptz;
          end if;
        end $router$;
        """

    /// Finds the caller in the same way as `pushq.caller()`.
    private static let place = """
        -- Returns the connection for a call about this queue: as the caller, and to no other database. If the caller
        -- may not act for the queue's tenant, the error is the same as for a queue that does not exist.
        create or replace function pushq_router.place(queue text) returns text
        language plpgsql stable set search_path = pg_catalog, pg_temp as $place$
        declare
          who text := case current_setting('role') when 'none' then session_user else current_setting('role') end;
          way text;
        begin
          if place.queue is null then
            raise exception using errcode = '0A000',
              message = 'a router answers calls about one queue, and none is named',
              hint = 'call it once for each queue';
          end if;
          select d.connection into way
          from pushq_router.place p
          join pushq_router.database d on d.number = p.database
          where p.login = who and p.tenant = split_part(place.queue, '/', 1);
          if way is null then
            raise exception using errcode = 'PQ404', message = format('there is no queue “%s”', place.queue),
              hint = 'an operator tells the router of new tenants and logins: pushq-admin router';
          end if;
          return format('%s user=''%s''', way, replace(replace(who, E'\\\\', E'\\\\\\\\'), '''', E'\\\\'''));
        end $place$;
        alter function pushq_router.place(text) owner to pushq_router;
        revoke execute on function pushq_router.place(text) from public;
        """

    // MARK: The functions

    /// Replaces the functions only if they have changed: a call that is just beginning would miss a dropped function.
    private var functions: String {
        let definitions = (parts.first?.part.functions ?? []).flatMap(Self.definitions).joined(separator: "\n")
        return """
            do $router$
            declare
              functions text := $functions$
            \(definitions)
            $functions$;
              old record;
            begin
              if exists (select from pushq_router.made m where m.digest = md5(functions)) then
                return;
              end if;
              for old in select p.oid::regprocedure as name from pg_proc p where p.pronamespace = 'pushq'::regnamespace loop
                execute format('drop function %s', old.name);
              end loop;
              execute functions;
              for old in select p.oid::regprocedure as name from pg_proc p where p.pronamespace = 'pushq'::regnamespace loop
                execute format('alter function %s owner to pushq_router', old.name);
                execute format('revoke execute on function %s from public', old.name);
                execute format('grant execute on function %s to pushq_producer', old.name);
              end loop;
              delete from pushq_router.made;
              insert into pushq_router.made values (md5(functions));
            end $router$;
            """
    }

    /// PL/Proxy accepts no polymorphic types, so there is a function for each type of the payload. For a literal,
    /// PostgreSQL prefers text. A default of `now()` becomes null, so that the database takes the time from its own
    /// clock.
    private static func definitions(of function: RouterPart.Function) -> [String] {
        let arguments = function.arguments.replacing(" DEFAULT now()", with: " DEFAULT NULL::timestamp with time zone")
        let types = arguments.contains("anycompatible") ? ["text", "json", "jsonb"] : [""]
        return types.map { type in
            let arguments =
                arguments
                .replacing("anycompatiblearray", with: "\(type)[]").replacing("anycompatible", with: type)
            let head = "create function pushq.\(function.name)(\(arguments)) returns \(function.result)"
            guard function.namesQueue else {
                return """
                    \(head)
                    language plpgsql as $proxy$ begin
                      raise exception using errcode = '0A000', message = 'a router has no pushq.\(function.name), which names no queue',
                        hint = 'call it in the database that the tenant is in: pushq-admin tenant where';
                    end $proxy$;
                    """
            }
            return """
                \(head)
                language plproxy volatile security definer set search_path = pg_catalog, pg_temp
                set datestyle = 'ISO' set intervalstyle = 'iso_8601' as $proxy$ connect pushq_router.place(queue); $proxy$;
                """
        }
    }

    // MARK: The places

    private var places: String {
        let rows = parts.flatMap { part, _ in
            part.logins.filter { !doubled.contains($0.key) }.flatMap { tenant, logins in
                logins.map { "(\($0.quotedLiteral), \(tenant.quotedLiteral), \(part.number))" }
            }
        }.sorted()
        // A tenant that has left may be in a database that could not be asked, or have arrived after that was asked.
        let found = Set(parts.flatMap(\.part.logins.keys)).subtracting(doubled)
        let kept = doubled.union(parts.flatMap(\.part.gone)).subtracting(found).sorted()
        let keptList = kept.map(\.quotedLiteral).joined(separator: ", ")
        let numbers = parts.map { "\($0.part.number)" }.joined(separator: ", ")
        let databases = parts.map { "(\($0.part.number), \($0.connection.quotedLiteral))" }
        let asked = isComplete ? "" : " and database in (\(numbers))"
        // A full second, and the time that it takes to pass this on to the router.
        let seconds = age.components.seconds + 6
        return """
            -- What stays is left alone, and so is a tenant of which nobody knows for certain in which database it is.
            insert into pushq_router.database
            values \(databases.joined(separator: ",\n       "))
            on conflict (number) do update set connection = excluded.connection
            where database.connection <> excluded.connection;
            create temporary table here (login text, tenant text, database int) on commit drop;
            \(rows.isEmpty ? "" : "insert into pg_temp.here values\n\(rows.joined(separator: ",\n"));")
            delete from pushq_router.place
            where (login, tenant) not in (select h.login, h.tenant from pg_temp.here h)
              and tenant <> all (array[\(keptList)]::text[])\(asked);
            insert into pushq_router.place (login, tenant, database)
            select h.login, h.tenant, h.database from pg_temp.here h
            on conflict (login, tenant) do update set database = excluded.database
            where place.database <> excluded.database
              -- What the router was told of a move is newer than what the databases said.
              and (place.told_at is null or place.told_at < now() - interval '\(seconds) seconds');
            \(isComplete ? "delete from pushq_router.database where number not in (\(numbers))\n  and number not in (select p.database from pushq_router.place p);" : "")
            """
    }
}
